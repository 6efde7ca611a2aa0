package mysql

import (
	"encoding/binary"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

// text decodes a value as a query returns it: UTF-8, the session's time zone UTC. It never fails: text that is not in
// the form that it expects becomes a value of kind Text, so that nothing is lost and nothing stops.
func (d *decoder) text(r *rows, text []byte) connectors.Value {
	switch d.form {
	case formBytes:
		return connectors.DataValue(connectors.Bytes, r.keep(text))
	case formInt, formYear:
		if n, ok := parseInt(text); ok {
			return connectors.IntValue(n)
		}
	case formUint:
		if n, ok := parseUint(text); ok {
			return d.unsigned(n)
		}
	case formFloat:
		return d.floatText(r, text)
	case formDecimal:
		return connectors.DataValue(connectors.Decimal, r.keep(trimZeros(text)))
	case formBit:
		return d.bits(r, text)
	case formDateTime:
		return r.timestamp(connectors.Timestamp, text, false)
	case formTimestamp:
		return r.timestamp(connectors.TimestampTZ, text, true)
	case formDate, formTime, formText, formJSON:
		return connectors.DataValue(d.kind, r.keep(text))
	case formEnum, formSet, formUUID, formInet4, formInet6:
	}
	return connectors.DataValue(connectors.Text, r.keep(text))
}

// unsigned keeps what always fits a signed number in one, so that only bigint unsigned needs more.
func (d *decoder) unsigned(n uint64) connectors.Value {
	if d.kind == connectors.Uint {
		return connectors.UintValue(n)
	}
	return connectors.IntValue(int64(n))
}

func parseInt(text []byte) (int64, bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	n, ok := parseUint(text)
	if negative {
		return -int64(n), ok && n <= 1<<63
	}
	return int64(n), ok && n < 1<<63
}

func parseUint(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 255 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		digit := uint64(c - '0')
		if digit > 9 || n > (1<<64-1-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// trimZeros takes off what ZEROFILL added.
func trimZeros(text []byte) []byte {
	for len(text) > 1 && text[0] == '0' && text[1] != '.' {
		text = text[1:]
	}
	return text
}

// floatText reads a double that the server printed so that it reads back the same. FLOAT columns are read as doubles:
// the server prints them with six digits only.
func (d *decoder) floatText(r *rows, text []byte) connectors.Value {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return connectors.DataValue(connectors.Text, r.keep(text))
	}
	return d.float(r, f)
}

// float appends the shortest text that reads back the same.
func (d *decoder) float(r *rows, f float64) connectors.Value {
	width := 64
	if d.typ.base == "float" {
		width = 32
	}
	start := len(r.arena)
	if f == 0 {
		if 1/f < 0 {
			r.arena = append(r.arena, "-0.0"...)
		} else {
			r.arena = append(r.arena, '0')
		}
		return connectors.DataValue(connectors.Float, r.since(start))
	}
	format := byte('f')
	if abs := max(f, -f); abs < 1e-6 || abs >= 1e21 {
		format = 'e'
	}
	r.arena = strconv.AppendFloat(r.arena, f, format, -1, width)
	return connectors.DataValue(connectors.Float, r.since(start))
}

// bits appends the digits of a BIT column, whose bytes are big-endian.
func (d *decoder) bits(r *rows, data []byte) connectors.Value {
	width := max(d.typ.a, 1)
	var buf [8]byte
	if len(data) > 8 {
		return connectors.DataValue(connectors.Text, r.keep(data))
	}
	copy(buf[8-len(data):], data)
	n := binary.BigEndian.Uint64(buf[:])
	start := len(r.arena)
	for i := width - 1; i >= 0; i-- {
		r.arena = append(r.arena, '0'+byte(n>>i&1))
	}
	return connectors.DataValue(connectors.Bits, r.since(start))
}

// timestamp turns 2026-01-30 12:34:56.5 into ISO 8601. Dates that no calendar has stay the database's text.
func (r *rows) timestamp(kind connectors.Kind, text []byte, utc bool) connectors.Value {
	start := len(r.arena)
	r.arena = append(r.arena, text...)
	if len(text) < 19 || !realDate(text[:10]) {
		return connectors.DataValue(kind, r.since(start))
	}
	r.arena[start+10] = 'T'
	if utc {
		r.arena = append(r.arena, 'Z')
	}
	return connectors.DataValue(kind, r.since(start))
}

// realDate reports whether 2026-01-30 is in the calendar, which zero, partial and invalid dates are not.
func realDate(text []byte) bool {
	if len(text) != 10 {
		return false
	}
	year, ok1 := parseUint(text[:4])
	month, ok2 := parseUint(text[5:7])
	day, ok3 := parseUint(text[8:])
	if !ok1 || !ok2 || !ok3 || year == 0 || month == 0 || month > 12 || day == 0 {
		return false
	}
	return day <= daysIn(year, month)
}

func daysIn(year, month uint64) uint64 {
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
