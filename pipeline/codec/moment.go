package codec

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// moment is a date and a time of day in the proleptic calendar, as the canonical text of a value says it.
type moment struct {
	days    int64 // since 1970-01-01
	micros  int64 // of the day
	forever int   // 1 infinity, -1 -infinity
}

const (
	microsOfDay = 24 * 60 * 60 * 1_000_000

	// What Debezium writes for infinity: microseconds since 1970.
	infinityMicros      = 9223372036825200000
	minusInfinityMicros = -9223372036832400000
)

// inMicros is microseconds since 1970. What int64 cannot hold ends at its limit.
func (m moment) inMicros() int64 {
	switch m.forever {
	case 1:
		return infinityMicros
	case -1:
		return minusInfinityMicros
	}
	return scaled(m.days, microsOfDay, m.micros)
}

// millis is milliseconds since 1970.
func (m moment) millis() int64 {
	if m.forever != 0 {
		return m.inMicros() / 1000
	}
	return m.days*(microsOfDay/1000) + m.micros/1000
}

// nanos is nanoseconds since 1970.
func (m moment) nanos() int64 {
	switch m.forever {
	case 1:
		return math.MaxInt64
	case -1:
		return math.MinInt64
	}
	return scaled(m.days, microsOfDay*1000, m.micros*1000)
}

// scaled is days * unit + rest, without running over.
func scaled(days, unit, rest int64) int64 {
	switch {
	case days > math.MaxInt64/unit-1:
		return math.MaxInt64
	case days < math.MinInt64/unit+1:
		return math.MinInt64
	}
	return days*unit + rest
}

// parseMoment reads a date, or a date and a time with T or a space between them, and PostgreSQL's words for what is beyond
// ISO's range. A zone is UTC and left out of account.
func parseMoment(text []byte) (m moment, ok bool) {
	switch string(text) {
	case "infinity":
		return moment{forever: 1}, true
	case "-infinity":
		return moment{forever: -1}, true
	}
	bc := false
	if rest, found := bytes.CutSuffix(text, []byte(" BC")); found {
		text, bc = rest, true
	}
	year, text, ok := wholeNumber(text, '-')
	if !ok {
		return m, false
	}
	month, text, ok := wholeNumber(text, '-')
	if !ok || month < 1 || month > 12 {
		return m, false
	}
	day, text, _ := wholeNumber(text, 0)
	if day < 1 || day > 31 {
		return m, false
	}
	if bc {
		year = 1 - year
	}
	m.days = time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC).Unix() / 86400
	if len(text) == 0 {
		return m, true
	}
	m.micros, _, ok = parseClock(text[1:])
	return m, ok
}

// wholeNumber reads digits, and end behind them if it is not zero.
func wholeNumber(b []byte, end byte) (n int64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i]-'0' <= 9 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	if i == 0 || i > 9 {
		return 0, b, false
	}
	if end == 0 {
		return n, b[i:], true
	}
	if i == len(b) || b[i] != end {
		return 0, b, false
	}
	return n, b[i+1:], true
}

// parseClock reads 12:34:56.123456, of any number of hours and below zero too, and returns what stands behind it.
func parseClock(text []byte) (micros int64, rest []byte, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	hours, text, ok := wholeNumber(text, ':')
	if !ok {
		return 0, text, false
	}
	minutes, text, ok := wholeNumber(text, 0)
	if !ok {
		return 0, text, false
	}
	var seconds int64
	if len(text) > 0 && text[0] == ':' {
		if seconds, text, ok = wholeNumber(text[1:], 0); !ok {
			return 0, text, false
		}
	}
	micros = ((hours*60+minutes)*60 + seconds) * 1_000_000
	if len(text) > 0 && text[0] == '.' {
		text = text[1:]
		for unit := int64(100_000); len(text) > 0 && text[0]-'0' <= 9; unit /= 10 {
			micros += int64(text[0]-'0') * unit
			text = text[1:]
		}
	}
	if negative {
		micros = -micros
	}
	return micros, text, true
}

// appendClock writes a time of day with a fraction of exactly digits, or of as many as it needs if digits is below zero.
func appendClock(dst []byte, micros int64, digits int) []byte {
	if micros < 0 {
		dst, micros = append(dst, '-'), -micros
	}
	seconds := micros / 1_000_000
	dst = appendPadded(dst, seconds/3600, 2)
	dst = appendPadded(append(dst, ':'), seconds/60%60, 2)
	dst = appendPadded(append(dst, ':'), seconds%60, 2)
	fraction := micros % 1_000_000
	if digits == 0 || digits < 0 && fraction == 0 {
		return dst
	}
	dst = appendPadded(append(dst, '.'), fraction, 6)
	if digits > 0 {
		return dst[:len(dst)-6+min(digits, 6)]
	}
	return bytes.TrimRight(dst, "0")
}

func appendPadded(dst []byte, n int64, width int) []byte {
	for limit := int64(10); width > 1; width-- {
		if n < limit {
			dst = append(dst, '0')
		}
		limit *= 10
	}
	return strconv.AppendInt(dst, n, 10)
}

// appendDate writes a date of ISO 8601: years beyond 9999 have a sign, and there is a year 0.
func appendDate(dst []byte, days int64) []byte {
	year, month, day := time.Unix(days*86400, 0).UTC().Date()
	switch {
	case year > 9999:
		dst = append(dst, '+')
	case year < 0:
		dst, year = append(dst, '-'), -year
	}
	dst = appendPadded(dst, int64(year), 4)
	dst = appendPadded(append(dst, '-'), int64(month), 2)
	return appendPadded(append(dst, '-'), int64(day), 2)
}

// duration is an interval of PostgreSQL in its three parts.
type duration struct {
	months, days, micros int64
}

// parseDuration reads 1 year 2 mons -3 days 04:05:06.789.
func parseDuration(text []byte) (d duration, ok bool) {
	words := bytes.Fields(text)
	for len(words) > 0 {
		if bytes.IndexByte(words[0], ':') >= 0 {
			clock := bytes.TrimPrefix(words[0], []byte("+"))
			micros, rest, ok := parseClock(clock)
			d.micros = micros
			return d, ok && len(rest) == 0 && len(words) == 1
		}
		n, err := strconv.ParseInt(string(words[0]), 10, 64)
		if err != nil || len(words) < 2 {
			return d, false
		}
		switch string(words[1]) {
		case "year", "years":
			d.months += 12 * n
		case "mon", "mons":
			d.months += n
		case "day", "days":
			d.days += n
		default:
			return d, false
		}
		words = words[2:]
	}
	return d, true
}

// inMicros takes a month for a twelfth of 365.25 days, as Debezium does.
func (d duration) inMicros() int64 {
	return d.months*(microsOfDay/16*487) + d.days*microsOfDay + d.micros
}

// appendISO writes P1Y2M3DT4H5M6.789S.
func (d duration) appendISO(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, 'P'), d.months/12, 10)
	dst = strconv.AppendInt(append(dst, 'Y'), d.months%12, 10)
	dst = strconv.AppendInt(append(dst, 'M'), d.days, 10)
	seconds := d.micros / 1_000_000
	dst = strconv.AppendInt(append(dst, "DT"...), seconds/3600, 10)
	dst = strconv.AppendInt(append(dst, 'H'), seconds/60%60, 10)
	dst = append(dst, 'M')
	rest := d.micros % 60_000_000
	if rest < 0 {
		dst, rest = append(dst, '-'), -rest
	}
	dst = strconv.AppendInt(dst, rest/1_000_000, 10)
	if fraction := rest % 1_000_000; fraction != 0 {
		dst = bytes.TrimRight(appendPadded(append(dst, '.'), fraction, 6), "0")
	}
	return append(dst, 'S')
}

// inDays is days since 1970. Infinity is the farthest that Kafka Connect's type has.
func (m moment) inDays() int64 {
	switch m.forever {
	case 1:
		return math.MaxInt32
	case -1:
		return math.MinInt32
	}
	return m.days
}
