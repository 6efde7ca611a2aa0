package mysql

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Bytes of MariaDB's formats before mysql56_temporal_format, by digits of the fraction. Without digits they are MySQL's
// oldest: decimal numbers, little-endian.
var (
	oldTime     = [7]int{3, 4, 4, 5, 5, 5, 6}
	oldDateTime = [7]int{8, 6, 6, 7, 7, 7, 8}
	oldFraction = [7]int{0, 1, 1, 2, 2, 3, 3}
)

// clock is a moment in parts, as the server keeps it: any of them may be zero or more than a calendar allows.
type clock struct {
	year, month, day     uint64
	hour, minute, second uint64
	micro                uint64
	negative             bool
}

// temporal decodes dates and times of every format.
func (d *decoder) temporal(r *rows, w wireColumn, data []byte) connectors.Value {
	var c clock
	scale := d.scale
	switch w.typ {
	case typeDate, typeNewDate:
		n := littleEndian(data)
		c.year, c.month, c.day = n>>9, n>>5&15, n&31
		start := len(r.arena)
		r.arena = c.appendDate(r.arena)
		return connectors.DataValue(connectors.Date, r.since(start))
	case typeTime2:
		scale = int(w.meta)
		c = decodeTime2(data, scale)
	case typeTime:
		c = decodeOldTime(data, scale)
	case typeDateTime2:
		scale = int(w.meta)
		c = decodeDateTime2(data, scale)
	case typeDateTime:
		c = decodeOldDateTime(data, scale)
	case typeTimestamp2:
		scale = int(w.meta)
		return d.instant(r, uint64(binary.BigEndian.Uint32(data)), fraction(bigEndian(data[4:]), scale), scale)
	case typeTimestamp:
		seconds := uint64(binary.LittleEndian.Uint32(data))
		if scale > 0 {
			seconds = uint64(binary.BigEndian.Uint32(data))
		}
		return d.instant(r, seconds, bigEndian(data[4:])*pow10(6-scale), scale)
	}
	start := len(r.arena)
	if w.typ == typeTime2 || w.typ == typeTime {
		if c.negative {
			r.arena = append(r.arena, '-')
		}
		r.arena = c.appendTime(r.arena, 2, scale)
		return connectors.DataValue(connectors.Interval, r.since(start))
	}
	r.arena = append(c.appendDate(r.arena), ' ')
	r.arena = c.appendTime(r.arena, 2, scale)
	if realDate(r.arena[start : start+10]) {
		r.arena[start+10] = 'T'
	}
	return connectors.DataValue(connectors.Timestamp, r.since(start))
}

// instant appends a TIMESTAMP in UTC. Zero is the zero date.
func (d *decoder) instant(r *rows, seconds, micro uint64, scale int) connectors.Value {
	var c clock
	if seconds != 0 || micro != 0 {
		t := time.Unix(int64(seconds), 0).UTC()
		year, month, day := t.Date()
		hour, minute, second := t.Clock()
		c = clock{year: uint64(year), month: uint64(month), day: uint64(day), hour: uint64(hour), minute: uint64(minute), second: uint64(second), micro: micro}
	}
	start := len(r.arena)
	r.arena = append(c.appendDate(r.arena), ' ')
	r.arena = c.appendTime(r.arena, 2, scale)
	if c.year != 0 {
		r.arena[start+10] = 'T'
		r.arena = append(r.arena, 'Z')
	}
	return connectors.DataValue(connectors.TimestampTZ, r.since(start))
}

func bigEndian(data []byte) uint64 {
	var n uint64
	for _, c := range data {
		n = n<<8 | uint64(c)
	}
	return n
}

func pow10(n int) uint64 {
	v := uint64(1)
	for range n {
		v *= 10
	}
	return v
}

// fraction turns the stored fraction, which has an even number of digits, into microseconds.
func fraction(n uint64, scale int) uint64 { return n * pow10(6-(scale+1)/2*2) }

// decodeTime2 reads a TIME: the whole and the fraction as one number that lies 2^23 (and its fraction) above zero.
//
//	1 bit sign, 1 unused, 10 hours, 6 minutes, 6 seconds; then the fraction
func decodeTime2(data []byte, scale int) clock {
	size := 8 * (len(data) - 3)
	n := int64(bigEndian(data)) - 1<<(23+size)
	var c clock
	if n < 0 {
		c.negative, n = true, -n
	}
	whole, part := uint64(n)>>size, uint64(n)&(1<<size-1)
	c.hour, c.minute, c.second, c.micro = whole>>12&0x3ff, whole>>6&63, whole&63, fraction(part, scale)
	return c
}

// decodeDateTime2 reads a DATETIME: 1 bit sign, 17 bits year*13+month, 5 day, 5 hour, 6 minute, 6 second; the fraction.
func decodeDateTime2(data []byte, scale int) clock {
	n := bigEndian(data[:5]) - 1<<39
	months := n >> 22
	return clock{year: months / 13, month: months % 13, day: n >> 17 & 31, hour: n >> 12 & 31, minute: n >> 6 & 63, second: n & 63,
		micro: fraction(bigEndian(data[5:]), scale)}
}

// decodeOldTime reads hhmmss, or with a fraction the units of it since -838:59:60.
func decodeOldTime(data []byte, scale int) clock {
	var c clock
	if scale == 0 {
		n := int64(int32(uint32(littleEndian(data))<<8) >> 8)
		if n < 0 {
			c.negative, n = true, -n
		}
		c.hour, c.minute, c.second = uint64(n)/10000, uint64(n)/100%100, uint64(n)%100
		return c
	}
	unit := pow10(scale)
	n := int64(bigEndian(data)) - int64((838*3600+59*60+59+1)*unit)
	if n < 0 {
		c.negative, n = true, -n
	}
	seconds := uint64(n) / unit
	c.hour, c.minute, c.second, c.micro = seconds/3600, seconds/60%60, seconds%60, uint64(n)%unit*pow10(6-scale)
	return c
}

// decodeOldDateTime reads yyyymmddhhmmss, or with a fraction the parts in mixed bases, big-endian.
func decodeOldDateTime(data []byte, scale int) clock {
	if scale == 0 {
		n := littleEndian(data)
		return clock{year: n / 1e10, month: n / 1e8 % 100, day: n / 1e6 % 100, hour: n / 1e4 % 100, minute: n / 100 % 100, second: n % 100}
	}
	n := bigEndian(data)
	unit := pow10(scale)
	if n > math.MaxInt64 {
		return clock{}
	}
	c := clock{micro: n % unit * pow10(6-scale)}
	n /= unit
	c.second, n = n%60, n/60
	c.minute, n = n%60, n/60
	c.hour, n = n%24, n/24
	c.day, n = n%32, n/32
	c.month, c.year = n%13, n/13
	return c
}

func (c *clock) appendDate(dst []byte) []byte {
	dst = append(appendPadded(dst, c.year, 4), '-')
	dst = append(appendPadded(dst, c.month, 2), '-')
	return appendPadded(dst, c.day, 2)
}

func (c *clock) appendTime(dst []byte, hours, scale int) []byte {
	dst = append(appendPadded(dst, c.hour, hours), ':')
	dst = append(appendPadded(dst, c.minute, 2), ':')
	dst = appendPadded(dst, c.second, 2)
	if scale > 0 {
		dst = append(dst, '.')
		dst = appendPadded(dst, c.micro/pow10(6-scale), scale)
	}
	return dst
}
