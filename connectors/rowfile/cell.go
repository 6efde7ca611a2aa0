package rowfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/trunkline/trunkline/connectors"
)

// parse makes Parquet's form of a value that is neither null nor absent. The bytes it needs are appended to arena. It
// reports false for a value that the column cannot hold exactly.
type parse func(v connectors.Value, arena []byte) (parquet.Value, []byte, bool)

// shape tells a column of single values from one of lists and of maps.
type shape uint8

const (
	single shape = iota
	list         // of optional elements
	dict         // from required text to optional text
)

// cell is how the values of one column are stored.
type cell struct {
	node  parquet.Node
	parse parse
	shape shape
	elem  connectors.Kind
}

// cellOf chooses the type of a column: the one that holds its values exactly, and text where Parquet has none.
func cellOf(c *connectors.Column) cell {
	switch c.Kind {
	case connectors.Array:
		elem := connectors.Column{Type: strings.TrimRight(c.Type, "[]"), Kind: c.Elem}
		if c.Elem == connectors.Array || c.Elem == connectors.Map || c.Elem == connectors.Absent {
			elem.Kind = connectors.Text
		}
		inner := cellOf(&elem)
		return cell{node: parquet.List(parquet.Optional(inner.node)), parse: inner.parse, shape: list, elem: elem.Kind}
	case connectors.Map:
		return cell{node: parquet.Map(parquet.String(), parquet.Optional(parquet.String())), parse: parseText, shape: dict, elem: connectors.Text}
	case connectors.Bool:
		return cell{node: parquet.Leaf(parquet.BooleanType), parse: parseBool}
	case connectors.Int:
		return cell{node: parquet.Int(64), parse: parseInt}
	case connectors.Uint:
		return cell{node: parquet.Uint(64), parse: parseUint}
	case connectors.Float:
		return cell{node: parquet.Leaf(parquet.DoubleType), parse: parseFloat}
	case connectors.Decimal:
		return decimalCell(c.Type)
	case connectors.Bytes:
		return cell{node: parquet.Leaf(parquet.ByteArrayType), parse: parseBytes}
	case connectors.JSON:
		return cell{node: parquet.JSON(), parse: parseJSON}
	case connectors.Date:
		return cell{node: parquet.Date(), parse: parseDate}
	case connectors.Time:
		if !strings.Contains(c.Type, "with time zone") && !strings.Contains(c.Type, "timetz") {
			return cell{node: parquet.TimeAdjusted(parquet.Microsecond, false), parse: parseTime}
		}
	case connectors.Timestamp:
		return cell{node: parquet.TimestampAdjusted(parquet.Microsecond, false), parse: parseTimestamp}
	case connectors.TimestampTZ:
		return cell{node: parquet.TimestampAdjusted(parquet.Microsecond, true), parse: parseTimestampTZ}
	case connectors.Text:
		if c.Type == "uuid" {
			return cell{node: parquet.UUID(), parse: parseUUID}
		}
	}
	return cell{node: parquet.String(), parse: parseText}
}

// holds reports values that the column can hold.
func (c *cell) holds() connectors.Holds {
	var scratch rowBuffer
	if c.shape == single {
		return func(v connectors.Value) bool {
			var ok bool
			_, scratch.arena, ok = c.parse(v, scratch.arena[:0])
			return ok
		}
	}
	var row parquet.Row
	return func(v connectors.Value) bool {
		var ok bool
		at := 0
		scratch.arena = scratch.arena[:0]
		row, ok = c.nested(&scratch, row[:0], v, &at)
		return ok
	}
}

// add appends a value at the next leaves. What the column cannot hold was replaced before, by Fit.
func (c *cell) add(b *rowBuffer, row parquet.Row, v connectors.Value, at *int) parquet.Row {
	if v.IsAbsent() || v.IsNull() {
		return c.null(row, at)
	}
	if c.shape != single {
		start, from := len(row), *at
		grown, ok := c.nested(b, row, v, at)
		if ok {
			return grown
		}
		*at = from
		return c.null(grown[:start], at)
	}
	p, arena, ok := c.parse(v, b.arena)
	b.arena = arena
	if !ok {
		return c.null(row, at)
	}
	row = append(row, p.Level(0, 1, *at))
	*at++
	return row
}

func (c *cell) null(row parquet.Row, at *int) parquet.Row {
	row = append(row, parquet.NullValue().Level(0, 0, *at))
	*at++
	if c.shape == dict {
		row = append(row, parquet.NullValue().Level(0, 0, *at))
		*at++
	}
	return row
}

// nested appends a list or a map. The levels of a list are: 1 empty, 2 a NULL element, 3 an element; those of a map: 1
// empty, 2 a key, and a NULL value, 3 a value.
func (c *cell) nested(b *rowBuffer, row parquet.Row, v connectors.Value, at *int) (parquet.Row, bool) {
	open := byte('[')
	if c.shape == dict {
		open = '{'
	}
	text := v.Data()
	if v.Kind() != connectors.Array && v.Kind() != connectors.Map || len(text) < 2 || text[0] != open {
		return row, false
	}
	keys, values := *at, *at
	if c.shape == dict {
		values++
	}
	*at = values + 1
	pos, repetition := 1, 0
	var held []parquet.Value // a map's values stand behind all of its keys
	for {
		for pos < len(text) && (text[pos] == ',' || text[pos] == ' ') {
			pos++
		}
		if pos >= len(text) {
			return row, false
		}
		if text[pos] == open+2 {
			break
		}
		if c.shape == dict {
			key, next, ok := c.element(b, text, pos)
			if !ok || key.IsNull() || next >= len(text) {
				return row, false
			}
			for pos = next; pos < len(text) && (text[pos] == ':' || text[pos] == ' '); pos++ {
			}
			row = append(row, key.Level(repetition, 2, keys))
		}
		value, next, ok := c.element(b, text, pos)
		if !ok {
			return row, false
		}
		pos = next
		level := 3
		if value.IsNull() {
			level = 2
		}
		held = append(held, value.Level(repetition, level, values))
		repetition = 1
	}
	if len(held) == 0 {
		if c.shape == dict {
			row = append(row, parquet.NullValue().Level(0, 1, keys))
		}
		return append(row, parquet.NullValue().Level(0, 1, values)), true
	}
	return append(row, held...), true
}

// element reads one JSON value. It reports false for one that the column cannot hold: an array in the array, too.
func (c *cell) element(b *rowBuffer, text []byte, pos int) (parquet.Value, int, bool) {
	if pos >= len(text) || text[pos] == '[' || text[pos] == '{' {
		return parquet.Value{}, pos, false
	}
	token, rest, err := connectors.ScanJSON(text[pos:])
	if err != nil {
		return parquet.Value{}, pos, false
	}
	end := len(text) - len(rest)
	v, arena, err := connectors.ParseJSON(c.elem, token, b.arena)
	b.arena = arena
	if err != nil {
		return parquet.Value{}, pos, false
	}
	if v.IsNull() {
		return parquet.NullValue(), end, true
	}
	p, arena, ok := c.parse(v, b.arena)
	b.arena = arena
	return p, end, ok
}

func parseText(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	if data := v.Data(); data != nil {
		return parquet.ByteArrayValue(data), arena, utf8.Valid(data)
	}
	start := len(arena)
	arena = v.AppendText(arena)
	return parquet.ByteArrayValue(arena[start:]), arena, true
}

// parseJSON refuses what is no JSON to strict readers, which would refuse the whole file for it.
func parseJSON(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	data := v.Data()
	return parquet.ByteArrayValue(data), arena, connectors.ValidJSON(data) && utf8.Valid(data) && connectors.WholePairs(data)
}

func parseBytes(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	return parquet.ByteArrayValue(v.Data()), arena, v.Kind() == connectors.Bytes
}

func parseBool(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	return parquet.BooleanValue(v.Bool()), arena, v.Kind() == connectors.Bool
}

func parseInt(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	ok := v.Kind() == connectors.Int || v.Kind() == connectors.Uint && v.Uint() <= math.MaxInt64
	return parquet.Int64Value(v.Int()), arena, ok
}

func parseUint(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	ok := v.Kind() == connectors.Uint || v.Kind() == connectors.Int && v.Int() >= 0
	return parquet.Int64Value(v.Int()), arena, ok
}

func parseFloat(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	switch v.Kind() {
	case connectors.Float:
		f, err := strconv.ParseFloat(string(v.Data()), 64)
		return parquet.DoubleValue(f), arena, err == nil
	case connectors.Int: // a number without a point
		f := float64(v.Int())
		return parquet.DoubleValue(f), arena, math.Abs(f) <= 1<<53
	}
	return parquet.Value{}, arena, false
}

func parseDate(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	text := v.Data()
	if v.Kind() != connectors.Date || len(text) != 10 || !connectors.IsDate(text) {
		return parquet.Value{}, arena, false
	}
	return parquet.Int32Value(int32(days(text))), arena, true
}

// days counts from 1970-01-01 to a date of the calendar.
func days(text []byte) int64 {
	year, month, day := digits(text[:4]), digits(text[5:7]), digits(text[8:10])
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

func digits(text []byte) int {
	n := 0
	for _, c := range text {
		n = n*10 + int(c-'0')
	}
	return n
}

// clock reads 12:34:56.123456, with up to six digits behind the point, as microseconds of a day.
func clock(text []byte) (int64, bool) {
	if len(text) < 8 || text[2] != ':' || text[5] != ':' {
		return 0, false
	}
	for _, i := range [...]int{0, 1, 3, 4, 6, 7} {
		if text[i]-'0' > 9 {
			return 0, false
		}
	}
	hour, minute, second := digits(text[:2]), digits(text[3:5]), digits(text[6:8])
	if hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	micros := int64(hour*3600+minute*60+second) * 1e6
	if len(text) == 8 {
		return micros, true
	}
	if text[8] != '.' || len(text) < 10 || len(text) > 15 {
		return 0, false
	}
	unit := int64(1e5)
	for _, c := range text[9:] {
		if c-'0' > 9 {
			return 0, false
		}
		micros += int64(c-'0') * unit
		unit /= 10
	}
	return micros, true
}

func parseTime(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	micros, ok := clock(v.Data())
	return parquet.Int64Value(micros), arena, ok && v.Kind() == connectors.Time
}

func moment(text []byte) (parquet.Value, bool) {
	if len(text) < 19 || text[10] != 'T' || !connectors.IsDate(text) {
		return parquet.Value{}, false
	}
	micros, ok := clock(text[11:])
	return parquet.Int64Value(days(text)*86400e6 + micros), ok
}

func parseTimestamp(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	p, ok := moment(v.Data())
	return p, arena, ok && v.Kind() == connectors.Timestamp
}

func parseTimestampTZ(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	text, ok := bytes.CutSuffix(v.Data(), []byte("Z"))
	if !ok || v.Kind() != connectors.TimestampTZ {
		return parquet.Value{}, arena, false
	}
	p, ok := moment(text)
	return p, arena, ok
}

func parseUUID(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
	text := v.Data()
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' || !bytes.Equal(bytes.ToLower(text), text) {
		return parquet.Value{}, arena, false
	}
	start := len(arena)
	for i := 0; i < 36; i += 2 {
		if text[i] == '-' {
			i++
		}
		var err error
		if arena, err = hex.AppendDecode(arena, text[i:i+2]); err != nil {
			return parquet.Value{}, arena[:start], false
		}
	}
	return parquet.FixedLenByteArrayValue(arena[start:]), arena, true
}

// exactDecimal is a type with the digits that Parquet needs to know: numeric(10,2), decimal(10) unsigned.
var exactDecimal = regexp.MustCompile(`^(?i:numeric|decimal) ?\((\d+)(?:, ?(\d+))?\)(?i: unsigned)?$`)

// maxPrecision is the largest of the readers that know the type.
const maxPrecision = 38

// decimalCell stores numbers with a fixed number of digits as such; others keep their text.
func decimalCell(name string) cell {
	m := exactDecimal.FindStringSubmatch(name)
	if m == nil {
		return cell{node: parquet.String(), parse: parseText}
	}
	precision, _ := strconv.Atoi(m[1])
	scale, _ := strconv.Atoi(m[2])
	if precision == 0 || precision > maxPrecision || scale > precision {
		return cell{node: parquet.String(), parse: parseText}
	}
	if precision <= 9 {
		return cell{node: parquet.Decimal(scale, precision, parquet.Int32Type), parse: func(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
			high, low, ok := unscaled(v.Data(), precision, scale)
			return parquet.Int32Value(int32(low)), arena, ok && (high == 0 || high == math.MaxUint64)
		}}
	}
	if precision <= 18 {
		return cell{node: parquet.Decimal(scale, precision, parquet.Int64Type), parse: func(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
			high, low, ok := unscaled(v.Data(), precision, scale)
			return parquet.Int64Value(int64(low)), arena, ok && (high == 0 || high == math.MaxUint64)
		}}
	}
	return cell{node: parquet.Decimal(scale, precision, parquet.FixedLenByteArrayType(16)), parse: func(v connectors.Value, arena []byte) (parquet.Value, []byte, bool) {
		high, low, ok := unscaled(v.Data(), precision, scale)
		start := len(arena)
		arena = binary.BigEndian.AppendUint64(arena, high)
		arena = binary.BigEndian.AppendUint64(arena, low)
		return parquet.FixedLenByteArrayValue(arena[start:]), arena, ok
	}}
}

// unscaled reads a number with exactly scale digits behind the point as a two's complement of 128 bits.
func unscaled(text []byte, precision, scale int) (high, low uint64, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	count, behind, point := 0, 0, false
	for i, c := range text {
		if c == '.' && !point && i > 0 {
			point = true
			continue
		}
		if c-'0' > 9 {
			return 0, 0, false
		}
		if point {
			behind++
		}
		if count > 0 || c != '0' {
			count++
		}
		carry, l := bits.Mul64(low, 10)
		h := high*10 + carry
		low, carry = bits.Add64(l, uint64(c-'0'), 0)
		high = h + carry
	}
	if len(text) == 0 || behind != scale || count > precision || point && scale == 0 {
		return 0, 0, false
	}
	if negative {
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		high, _ = bits.Sub64(0, high, borrow)
	}
	return high, low, true
}
