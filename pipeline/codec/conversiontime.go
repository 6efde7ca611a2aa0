package codec

import (
	"bytes"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

// temporal follows time.precision.mode.
func (f converter) temporal(dialect string, kind connectors.Kind, t parsedType) conversion {
	switch kind {
	case connectors.Date:
		return f.date()
	case connectors.Timestamp:
		return f.timestamp(t.number(0, defaultDigits(dialect)))
	case connectors.TimestampTZ:
		return f.zoned(t.number(0, defaultDigits(dialect)))
	case connectors.Time:
		if t.has("with") {
			return f.zonedClock()
		}
		return f.clock(dialect, t.number(0, defaultDigits(dialect)))
	case connectors.Interval:
		if dialect == "mysql" {
			return f.clock(dialect, 6)
		}
		return f.interval()
	}
	return f.str("")
}

// defaultDigits are the digits behind the seconds of a type that does not say how many.
func defaultDigits(dialect string) int {
	if dialect == "mysql" {
		return 0
	}
	return 6
}

// momentConversion is a number that is made of a date and a time.
func momentConversion(head, name string, number func(moment) int64) conversion {
	return conversion{head: head, tail: named(name, ""), zero: "0", write: func(dst []byte, v connectors.Value) ([]byte, bool) {
		m, ok := parseMoment(v.Data())
		return strconv.AppendInt(dst, number(m), 10), ok
	}}
}

func (f converter) date() conversion {
	switch f.Time {
	case "isostring":
		c := f.str(named("io.debezium.time.IsoDate", ""))
		c.zero, c.gone = `"1970-01-01Z"`, ""
		c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
			m, ok := parseMoment(v.Data())
			if !ok || m.forever != 0 {
				return connectors.AppendJSONString(dst, v.Data()), ok
			}
			return append(appendDate(append(dst, '"'), m.days), `Z"`...), true
		}
		return c
	case "connect":
		return momentConversion(`"type":"int32"`, "org.apache.kafka.connect.data.Date", moment.inDays)
	}
	return momentConversion(`"type":"int32"`, "io.debezium.time.Date", moment.inDays)
}

func (f converter) timestamp(digits int) conversion {
	const int64Type = `"type":"int64"`
	switch {
	case f.Time == "connect":
		return momentConversion(int64Type, "org.apache.kafka.connect.data.Timestamp", moment.millis)
	case f.Time == "nanoseconds":
		c := momentConversion(int64Type, "io.debezium.time.NanoTimestamp", moment.nanos)
		all := c.write
		c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
			m, _ := parseMoment(v.Data())
			dst, ok := all(dst, v)
			return dst, ok && (m.forever != 0 || m.days < 106_751 && m.days > -106_752) // the years 1677 to 2262
		}
		return c
	case f.Time == "isostring":
		c := f.str(named("io.debezium.time.IsoTimestamp", ""))
		c.zero, c.gone = `"1970-01-01T00:00:00Z"`, ""
		c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
			m, ok := parseMoment(v.Data())
			return append(appendMoment(append(dst, '"'), m, -1), '"'), ok
		}
		return c
	case f.Time == "microseconds", digits > 3:
		return momentConversion(int64Type, "io.debezium.time.MicroTimestamp", moment.inMicros)
	}
	return momentConversion(int64Type, "io.debezium.time.Timestamp", moment.millis)
}

// appendMoment writes 2026-01-30T12:34:56.5Z with so many digits of the second, or with as many as it needs.
func appendMoment(dst []byte, m moment, digits int) []byte {
	if m.forever != 0 {
		micros := m.inMicros() / 1000 * 1000
		m.days, m.micros = micros/microsOfDay, micros%microsOfDay
		if m.micros < 0 {
			m.days, m.micros = m.days-1, m.micros+microsOfDay
		}
	}
	dst = append(appendDate(dst, m.days), 'T')
	return append(appendClock(dst, m.micros, digits), 'Z')
}

// zoned is an instant, in every mode a string in UTC. What is beyond ISO's range keeps the database's word.
func (f converter) zoned(digits int) conversion {
	c := f.str(named("io.debezium.time.ZonedTimestamp", ""))
	c.zero, c.gone = `"1970-01-01T00:00:00Z"`, ""
	c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
		m, ok := parseMoment(v.Data())
		if m.forever != 0 {
			return connectors.AppendJSONString(dst, v.Data()), true
		}
		return append(appendMoment(append(dst, '"'), m, digits), '"'), ok
	}
	return c
}

// clock is a time of day. What MySQL calls a time may be longer than a day, or below zero.
func (f converter) clock(dialect string, digits int) conversion {
	kind, name, unit := `"type":"int64"`, "io.debezium.time.MicroTime", int64(1)
	switch {
	case f.Time == "isostring":
		c := f.str(named("io.debezium.time.IsoTime", ""))
		c.zero, c.gone = `"00:00:00Z"`, ""
		c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
			micros, _, ok := parseClock(v.Data())
			if micros == microsOfDay && dialect == "postgres" {
				micros = 0 // 24:00, which is no time of day in ISO 8601
			}
			return append(appendClock(append(dst, '"'), micros, -1), `Z"`...), ok
		}
		return c
	case f.Time == "connect":
		kind, name, unit = `"type":"int32"`, "org.apache.kafka.connect.data.Time", 1000
	case f.Time == "nanoseconds":
		name, unit = "io.debezium.time.NanoTime", -1000
	case f.Time == "adaptive" && digits <= 3:
		kind, name, unit = `"type":"int32"`, "io.debezium.time.Time", 1000
	}
	return conversion{head: kind, tail: named(name, ""), zero: "0", write: func(dst []byte, v connectors.Value) ([]byte, bool) {
		micros, _, ok := parseClock(v.Data())
		if unit < 0 {
			return strconv.AppendInt(dst, micros*-unit, 10), ok
		}
		return strconv.AppendInt(dst, micros/unit, 10), ok
	}}
}

// zonedClock is a time of day with its offset, which becomes UTC.
func (f converter) zonedClock() conversion {
	c := f.str(named("io.debezium.time.ZonedTime", ""))
	c.zero, c.gone = `"00:00:00Z"`, ""
	c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
		micros, zone, ok := parseClock(v.Data())
		if !ok || len(zone) == 0 {
			return dst, false
		}
		at := zone[1:]
		if bytes.IndexByte(at, ':') < 0 {
			at = append(append(make([]byte, 0, 8), at...), ":00"...)
		}
		offset, _, ok := parseClock(at)
		if zone[0] == '+' {
			offset = -offset
		}
		micros = ((micros+offset)%microsOfDay + microsOfDay) % microsOfDay
		return append(appendClock(append(dst, '"'), micros, -1), `Z"`...), ok
	}
	return c
}

// interval follows interval.handling.mode.
func (f converter) interval() conversion {
	if f.Interval == "string" {
		c := f.str(named("io.debezium.time.Interval", ""))
		c.zero, c.gone = `"P0Y0M0DT0H0M0S"`, ""
		c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
			d, ok := parseDuration(v.Data())
			return append(d.appendISO(append(dst, '"')), '"'), ok
		}
		return c
	}
	return conversion{head: `"type":"int64"`, tail: named("io.debezium.time.MicroDuration", ""), zero: "0",
		write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			d, ok := parseDuration(v.Data())
			return strconv.AppendInt(dst, d.inMicros(), 10), ok
		}}
}
