package postgres

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"unsafe"

	"github.com/trunkline/trunkline/connectors"
)

// COPY's binary format (PostgreSQL documentation, COPY, "Binary Format"), which costs the server a third less than text:
//
//	header   "PGCOPY\n\377\r\n\0", int32 flags = 0, int32 extension = 0
//	row      int16 columns, for each int32 length and that many bytes; length -1: NULL
//	trailer  int16 -1
//
// All integers are big endian. What stands in the bytes is what the type's receive function reads:
//
//	bool            1 byte
//	int2 int4 int8  big endian
//	float4 float8   IEEE 754, big endian
//	numeric         int16 digits, int16 weight, uint16 sign, int16 scale, digits of base 10,000 as int16
//	date            int32 days since 2000-01-01
//	time            int64 microseconds since midnight
//	timestamp(tz)   int64 microseconds since 2000-01-01 00:00 (UTC)
//	uuid            16 bytes
//	jsonb           one byte 1, then the text
//	text varchar bpchar json bytea enum   the bytes
//
// Only values in their plain canonical form are written so. Everything else (infinity, years BC, a text in a column of
// numbers) is errNotBinary, and the rows go as text, which the server reads by its own rules.
var binaryHeader = []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")

var errNotBinary = errors.New("value has no plain binary form")

// binaryForm is how a column is written in the binary format; zero: not at all.
type binaryForm uint8

const (
	binaryText binaryForm = iota + 1
	binaryBool
	binaryBytes
	binaryInt2
	binaryInt4
	binaryInt8
	binaryFloat4
	binaryFloat8
	binaryNumeric
	binaryDate
	binaryTime
	binaryTimestamp
	binaryTimestampTZ
	binaryUUID
	binaryJSONB
)

// binaryForms are by the numbers that pg_type.dat fixes.
var binaryForms = map[uint32]binaryForm{
	oidBool: binaryBool, oidBytea: binaryBytes, 20: binaryInt8, 21: binaryInt2, 23: binaryInt4, 25: binaryText, 114: binaryText,
	700: binaryFloat4, 701: binaryFloat8, 1042: binaryText, 1043: binaryText, 1082: binaryDate, 1083: binaryTime,
	1114: binaryTimestamp, 1184: binaryTimestampTZ, 1700: binaryNumeric, 2950: binaryUUID, 3802: binaryJSONB,
}

// appendBinaryRow appends one row: the columns at places, then soft's flag where the target has one.
func appendBinaryRow(dst []byte, r *route, places []int, row []connectors.Value, deleted bool) ([]byte, error) {
	columns := len(places)
	if r.soft >= 0 {
		columns++
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(columns))
	for _, place := range places {
		v := row[place]
		if k := v.Kind(); k == connectors.Null || k == connectors.Absent {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		var ok bool
		if dst, ok = appendBinary(dst, r.target.columns[r.columns[place]].binary, v); !ok {
			return dst, errNotBinary
		}
		binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	}
	if r.soft >= 0 {
		dst = append(dst, 0, 0, 0, 1, byte(boolNumber(deleted)))
	}
	return dst, nil
}

// appendBinary appends the bytes of a value that is not NULL, false when it has no plain binary form.
func appendBinary(dst []byte, form binaryForm, v connectors.Value) ([]byte, bool) {
	switch form {
	case binaryText:
		return v.AppendText(dst), v.Kind() != connectors.Bytes
	case binaryJSONB:
		return v.AppendText(append(dst, 1)), v.Kind() != connectors.Bytes
	case binaryBytes:
		return append(dst, v.Data()...), v.Kind() == connectors.Bytes || v.Kind() == connectors.Text
	case binaryBool:
		return append(dst, byte(boolNumber(v.Bool()))), v.Kind() == connectors.Bool
	case binaryInt2, binaryInt4, binaryInt8:
		return appendBinaryInt(dst, form, v)
	case binaryFloat4, binaryFloat8:
		return appendBinaryFloat(dst, form, v)
	case binaryNumeric:
		var digits [20]byte
		text := v.Data()
		if v.Kind() == connectors.Int || v.Kind() == connectors.Uint {
			text = v.AppendText(digits[:0])
		} else if v.Kind() != connectors.Decimal {
			return dst, false
		}
		return appendBinaryNumeric(dst, text)
	case binaryDate:
		days, rest, ok := parseDate(v.Data())
		return binary.BigEndian.AppendUint32(dst, uint32(int32(days))), ok && len(rest) == 0 && v.Kind() == connectors.Date
	case binaryTime:
		micros, rest, ok := parseTime(v.Data())
		return binary.BigEndian.AppendUint64(dst, uint64(micros)), ok && len(rest) == 0 && v.Kind() == connectors.Time
	case binaryTimestamp:
		micros, rest, ok := parseTimestamp(v.Data())
		return binary.BigEndian.AppendUint64(dst, uint64(micros)), ok && len(rest) == 0 && v.Kind() == connectors.Timestamp
	case binaryTimestampTZ:
		micros, rest, ok := parseTimestamp(v.Data())
		return binary.BigEndian.AppendUint64(dst, uint64(micros)), ok && len(rest) == 1 && rest[0] == 'Z' && v.Kind() == connectors.TimestampTZ
	case binaryUUID:
		return appendBinaryUUID(dst, v.Data())
	}
	return dst, false
}

func appendBinaryInt(dst []byte, form binaryForm, v connectors.Value) ([]byte, bool) {
	n := v.Int()
	switch v.Kind() {
	case connectors.Int:
	case connectors.Uint:
		if n < 0 {
			return dst, false
		}
	case connectors.Bool:
		n = int64(boolNumber(v.Bool()))
	default:
		return dst, false
	}
	switch form {
	case binaryInt2:
		return binary.BigEndian.AppendUint16(dst, uint16(n)), n == int64(int16(n))
	case binaryInt4:
		return binary.BigEndian.AppendUint32(dst, uint32(n)), n == int64(int32(n))
	default:
		return binary.BigEndian.AppendUint64(dst, uint64(n)), true
	}
}

func appendBinaryFloat(dst []byte, form binaryForm, v connectors.Value) ([]byte, bool) {
	if v.Kind() != connectors.Float || len(v.Data()) == 0 {
		return dst, false
	}
	text := unsafe.String(&v.Data()[0], len(v.Data())) // ParseFloat keeps nothing of it when it succeeds
	if form == binaryFloat4 {
		f, err := strconv.ParseFloat(text, 32)
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(f))), err == nil
	}
	f, err := strconv.ParseFloat(text, 64)
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(f)), err == nil
}

// Signs of a numeric.
const (
	numericNegative  = 0x4000
	numericNaN       = 0xc000
	numericInfinity  = 0xd000
	numericMinus     = 0xf000
	numericMaxScale  = 0x3fff
	numericMaxDigits = 100_000
)

// appendBinaryNumeric turns -12345.678 into digits of base 10,000: 1 2345 . 6780.
func appendBinaryNumeric(dst, text []byte) ([]byte, bool) {
	sign := uint16(0)
	switch string(text) {
	case "NaN":
		sign = numericNaN
	case "Infinity":
		sign = numericInfinity
	case "-Infinity":
		sign = numericMinus
	}
	if sign != 0 {
		return append(dst, 0, 0, 0, 0, byte(sign>>8), byte(sign), 0, 0), true
	}
	if len(text) > 0 && text[0] == '-' {
		sign, text = numericNegative, text[1:]
	}
	whole := 0
	for whole < len(text) && text[whole] != '.' {
		whole++
	}
	fraction := text[whole:]
	if len(fraction) > 0 {
		fraction = fraction[1:]
	}
	if whole == 0 || len(fraction) > numericMaxScale || len(text) > numericMaxDigits {
		return dst, false
	}
	left := (whole + 3) / 4
	digits := left + (len(fraction)+3)/4
	dst = binary.BigEndian.AppendUint16(dst, uint16(digits))
	dst = binary.BigEndian.AppendUint16(dst, uint16(left-1))
	dst = binary.BigEndian.AppendUint16(dst, sign)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(fraction)))
	digit, room := uint16(0), 4*left-whole // the first group may have fewer than four digits
	for _, c := range text[:whole] {
		if c -= '0'; c > 9 {
			return dst, false
		}
		digit = digit*10 + uint16(c)
		if room++; room%4 == 0 {
			dst, digit = binary.BigEndian.AppendUint16(dst, digit), 0
		}
	}
	room = 0
	for _, c := range fraction {
		if c -= '0'; c > 9 {
			return dst, false
		}
		digit = digit*10 + uint16(c)
		if room++; room%4 == 0 {
			dst, digit = binary.BigEndian.AppendUint16(dst, digit), 0
		}
	}
	if room%4 != 0 {
		for ; room%4 != 0; room++ {
			digit *= 10
		}
		dst = binary.BigEndian.AppendUint16(dst, digit)
	}
	return dst, true
}

func appendBinaryUUID(dst, text []byte) ([]byte, bool) {
	if len(text) != 36 {
		return dst, false
	}
	high, half := byte(0), false
	for i, c := range text {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return dst, false
			}
			continue
		}
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return dst, false
		}
		if half {
			dst = append(dst, high<<4|c)
		}
		high, half = c, !half
	}
	return dst, true
}

// epoch is 2000-01-01 in days since 0000-03-01.
const epoch = 730425

// parseDate reads 2026-01-30 and returns the days since 2000-01-01 and what follows.
func parseDate(text []byte) (days int64, rest []byte, ok bool) {
	if len(text) < 10 || text[4] != '-' || text[7] != '-' {
		return 0, nil, false
	}
	high, ok1 := twoDigits(text, 0)
	low, ok2 := twoDigits(text, 2)
	month, ok3 := twoDigits(text, 5)
	day, ok4 := twoDigits(text, 8)
	year := high*100 + low
	if !(ok1 && ok2 && ok3 && ok4) || year == 0 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, nil, false
	}
	// The year starts in March, so that the day of the leap year is the last one.
	if month <= 2 {
		year, month = year-1, month+12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - epoch, text[10:], true
}

func daysIn(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// parseTime reads 12:34:56.123456, 24:00:00 included, and returns microseconds and what follows.
func parseTime(text []byte) (micros int64, rest []byte, ok bool) {
	if len(text) < 8 || text[2] != ':' || text[5] != ':' {
		return 0, nil, false
	}
	hour, ok1 := twoDigits(text, 0)
	minute, ok2 := twoDigits(text, 3)
	second, ok3 := twoDigits(text, 6)
	micros = ((hour*60+minute)*60 + second) * 1e6
	rest = text[8:]
	if len(rest) > 0 && rest[0] == '.' {
		rest = rest[1:]
		for scale := int64(100_000); len(rest) > 0 && rest[0]-'0' <= 9; scale /= 10 {
			if scale == 0 {
				return 0, nil, false // more digits than the server keeps: it rounds
			}
			micros += int64(rest[0]-'0') * scale
			rest = rest[1:]
		}
	}
	return micros, rest, ok1 && ok2 && ok3 && minute < 60 && second < 60 && micros <= 24*3600*1e6
}

// parseTimestamp reads 2026-01-30T12:34:56.123456 and returns microseconds since 2000-01-01 and what follows.
func parseTimestamp(text []byte) (micros int64, rest []byte, ok bool) {
	days, rest, ok := parseDate(text)
	if !ok || len(rest) == 0 || rest[0] != 'T' {
		return 0, nil, false
	}
	micros, rest, ok = parseTime(rest[1:])
	return days*24*3600*1e6 + micros, rest, ok
}

func twoDigits(text []byte, at int) (int64, bool) {
	a, b := text[at]-'0', text[at+1]-'0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}
