package clickhouse

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/shopspring/decimal"

	"github.com/trunkline/trunkline/connectors"
)

// cells are the values of one column on their way into an INSERT. Their bytes may be the batch's, so they are sent before
// the batch ends.
type cells interface {
	add(v connectors.Value) error // neither NULL nor absent
	null()                        // NULL, or what the type has in its place
	flush(c driver.BatchColumn) error
	reset()
}

// The reasons why a value doesn't fit its column. None of them shows the value.
var (
	errRange    = errors.New("the value is out of the type's range; a column of type String takes it")
	errForm     = errors.New("the value is not one of the type; a column of type String takes it")
	errDigits   = errors.New("the value has more digits than the type keeps; a column of type String takes it")
	errNoNested = errors.New("the value is not a list of single values; a column of type String takes it")
)

// typed are cells of one Go type.
type typed[T any] struct {
	values   []T
	nulls    []bool
	pointers []*T
	nullable bool
	parse    func(connectors.Value) (T, error)
}

func (c *typed[T]) add(v connectors.Value) error {
	value, err := c.parse(v)
	if err != nil {
		return err
	}
	c.values, c.nulls = append(c.values, value), append(c.nulls, false)
	return nil
}

func (c *typed[T]) null() {
	var zero T
	c.values, c.nulls = append(c.values, zero), append(c.nulls, true)
}

func (c *typed[T]) flush(column driver.BatchColumn) error {
	if !c.nullable {
		return column.Append(c.values)
	}
	c.pointers = c.pointers[:0]
	for i := range c.values {
		if c.nulls[i] {
			c.pointers = append(c.pointers, nil)
		} else {
			c.pointers = append(c.pointers, &c.values[i])
		}
	}
	return column.Append(c.pointers)
}

func (c *typed[T]) reset() { c.values, c.nulls = c.values[:0], c.nulls[:0] }

func cellsOf[T any](nullable bool, parse func(connectors.Value) (T, error)) cells {
	return &typed[T]{nullable: nullable, parse: parse}
}

// inner returns what stands in NAME(…).
func inner(kind, name string) (string, bool) {
	rest, ok := strings.CutPrefix(kind, name+"(")
	if !ok || !strings.HasSuffix(rest, ")") {
		return kind, false
	}
	return rest[:len(rest)-1], true
}

// newCells returns the cells of a column with the server's type.
func newCells(kind string) (cells, error) {
	if elem, ok := inner(kind, "Array"); ok {
		parse, err := element(elem)
		return &lists{parse: parse}, err
	}
	kind, _ = inner(kind, "LowCardinality")
	kind, nullable := inner(kind, "Nullable")
	name, _, _ := strings.Cut(kind, "(")
	switch name {
	case "String":
		return cellsOf(nullable, text), nil
	case "Bool":
		return cellsOf(nullable, boolean), nil
	case "Int8":
		return cellsOf(nullable, signed[int8](8)), nil
	case "Int16":
		return cellsOf(nullable, signed[int16](16)), nil
	case "Int32":
		return cellsOf(nullable, signed[int32](32)), nil
	case "Int64":
		return cellsOf(nullable, signed[int64](64)), nil
	case "UInt8":
		return cellsOf(nullable, unsigned[uint8](8)), nil
	case "UInt16":
		return cellsOf(nullable, unsigned[uint16](16)), nil
	case "UInt32":
		return cellsOf(nullable, unsigned[uint32](32)), nil
	case "UInt64":
		return cellsOf(nullable, unsigned[uint64](64)), nil
	case "Float64":
		return cellsOf(nullable, double), nil
	case "Decimal":
		parse, err := exact(kind)
		return cellsOf(nullable, parse), err
	case "Date", "Date32", "DateTime", "DateTime64":
		return cellsOf(nullable, moment(kind)), nil
	}
	return nil, fmt.Errorf("no rows can be written into type %s; use one of String, Bool, Int8 to UInt64, Float64, Decimal, Date32, DateTime64, Array", kind)
}

// text borrows the bytes of the batch, which the library copies before the batch ends.
func text(v connectors.Value) (string, error) {
	if data := v.Data(); len(data) > 0 {
		return unsafe.String(&data[0], len(data)), nil
	}
	return string(v.AppendText(nil)), nil
}

func boolean(v connectors.Value) (bool, error) {
	if v.Kind() == connectors.Bool {
		return v.Bool(), nil
	}
	switch s, _ := text(v); s {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, errForm
}

func signed[T int8 | int16 | int32 | int64](bits int) func(connectors.Value) (T, error) {
	return func(v connectors.Value) (T, error) {
		n := v.Int()
		switch v.Kind() {
		case connectors.Int:
		case connectors.Uint:
			if v.Uint() > math.MaxInt64 {
				return 0, errRange
			}
		default:
			var err error
			s, _ := text(v)
			if n, err = strconv.ParseInt(s, 10, 64); err != nil {
				return 0, errForm
			}
		}
		if bits < 64 && (n < -1<<(bits-1) || n >= 1<<(bits-1)) {
			return 0, errRange
		}
		return T(n), nil
	}
}

func unsigned[T uint8 | uint16 | uint32 | uint64](bits int) func(connectors.Value) (T, error) {
	return func(v connectors.Value) (T, error) {
		n := v.Uint()
		switch v.Kind() {
		case connectors.Bool:
			if v.Bool() {
				n = 1
			}
		case connectors.Uint:
		case connectors.Int:
			if v.Int() < 0 {
				return 0, errRange
			}
		default:
			var err error
			s, _ := text(v)
			if n, err = strconv.ParseUint(s, 10, 64); err != nil {
				return 0, errForm
			}
		}
		if bits < 64 && n >= 1<<bits {
			return 0, errRange
		}
		return T(n), nil
	}
}

func double(v connectors.Value) (float64, error) {
	s, _ := text(v)
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errForm
	}
	return f, nil
}

// exact takes what Decimal(precision, scale) keeps without rounding.
func exact(kind string) (func(connectors.Value) (decimal.Decimal, error), error) {
	arguments, _ := inner(kind, "Decimal")
	first, second, _ := strings.Cut(arguments, ",")
	precision, err1 := strconv.Atoi(strings.TrimSpace(first))
	scale, err2 := strconv.Atoi(strings.TrimSpace(second))
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("type %s: %w", kind, err)
	}
	limit := decimal.New(1, int32(precision-scale))
	return func(v connectors.Value) (decimal.Decimal, error) {
		if d, ok := few(v.Data(), precision, scale); ok {
			return d, nil
		}
		s, _ := text(v)
		d, err := decimal.NewFromString(s)
		switch {
		case err != nil:
			return d, errForm
		case !d.Equal(d.Truncate(int32(scale))):
			return d, errDigits
		case d.Abs().GreaterThanOrEqual(limit):
			return d, errRange
		}
		return d, nil
	}, nil
}

// fewDigits are those of a number that is made from an int64.
const fewDigits = 18

// few reads a plain number that fits, which most do, without the cost of larger ones. false: it has to be looked at.
func few(text []byte, precision, scale int) (decimal.Decimal, bool) {
	digits := text
	negative := len(digits) > 0 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > fewDigits {
		return decimal.Decimal{}, false
	}
	var n int64
	whole, behind := 0, -1 // digits before and behind the point; none: no point
	for _, c := range digits {
		switch {
		case c == '.' && behind < 0 && whole > 0:
			behind = 0
			continue
		case c-'0' > 9:
			return decimal.Decimal{}, false
		case behind >= 0:
			behind++
		default:
			whole++
		}
		n = n*10 + int64(c-'0')
	}
	if behind == 0 || behind > scale || whole > precision-scale {
		return decimal.Decimal{}, false
	}
	if negative {
		n = -n
	}
	return decimal.New(n, -int32(max(behind, 0))), true
}

// moment takes what a type of days or times keeps: its years, and its digits of a second.
func moment(kind string) func(connectors.Value) (time.Time, error) {
	from, to, digits := 1900, 2299, 0
	switch {
	case kind == "Date":
		from, to = 1970, 2148
	case strings.HasPrefix(kind, "DateTime64("):
		digits = int(kind[len("DateTime64(")] - '0')
		if digits == 9 {
			to = 2261
		}
	case strings.HasPrefix(kind, "DateTime"):
		from, to = 1970, 2105
	}
	step := time.Duration(math.Pow10(9 - digits))
	layout := "2006-01-02T15:04:05"
	if !strings.HasPrefix(kind, "DateTime") {
		layout = time.DateOnly
	}
	return func(v connectors.Value) (time.Time, error) {
		s, _ := text(v)
		s = strings.TrimSuffix(s, "Z")
		if len(s) > 10 && s[10] == ' ' {
			s = s[:10] + "T" + s[11:]
		}
		at, err := time.Parse(layout, s)
		switch {
		case err != nil && (v.Kind() == connectors.Date || v.Kind() == connectors.Timestamp || v.Kind() == connectors.TimestampTZ):
			return at, errRange // infinity, or a year of more digits
		case err != nil:
			return at, errForm
		case at.Year() < from || at.Year() > to:
			return at, errRange
		case layout != time.DateOnly && at.Nanosecond()%int(step) != 0:
			return at, errDigits
		}
		return at, nil
	}
}

// lists are the cells of a column of type Array. A NULL becomes an empty list, because ClickHouse has no other.
type lists struct {
	rows  []any
	parse func(connectors.Kind, []byte) (any, error)
}

func (c *lists) add(v connectors.Value) error {
	body := v.Data()
	if v.Kind() != connectors.Array && (len(body) == 0 || body[0] != '[') {
		return errNoNested
	}
	row := []any{}
	for body = body[1 : len(body)-1]; len(body) > 0; {
		token, rest, err := connectors.ScanJSON(body)
		if err != nil {
			break // the end: what comes before is a list of whole values
		}
		value, err := c.parse(connectors.Text, token)
		if err != nil {
			return err
		}
		row = append(row, value)
		if body = rest; len(body) > 0 {
			body = body[1:]
		}
	}
	c.rows = append(c.rows, row)
	return nil
}

func (c *lists) null() { c.rows = append(c.rows, []any{}) }

func (c *lists) flush(column driver.BatchColumn) error {
	for _, row := range c.rows {
		if err := column.AppendRow(row); err != nil {
			return err
		}
	}
	return nil
}

func (c *lists) reset() { c.rows = c.rows[:0] }

// element returns what reads one value of a list, whose type may be Nullable.
func element(kind string) (func(connectors.Kind, []byte) (any, error), error) {
	base, nullable := inner(kind, "Nullable")
	if strings.HasPrefix(base, "Array(") {
		return nil, fmt.Errorf("lists of lists (%s) can't be written; use String", kind)
	}
	one, err := newCells(kind)
	if err != nil {
		return nil, err
	}
	return func(_ connectors.Kind, token []byte) (any, error) {
		v, _, err := connectors.ParseJSON(connectors.Text, token, nil)
		switch {
		case err != nil:
			return nil, errNoNested
		case v.IsNull() && nullable:
			return nil, nil
		case v.IsNull():
			return nil, errForm
		}
		one.reset()
		if err := one.add(v); err != nil {
			return nil, err
		}
		return one.(interface{ first() any }).first(), nil
	}, nil
}

// first returns the first value, which may outlive what it was read from.
func (c *typed[T]) first() any {
	if s, ok := any(c.values[0]).(string); ok {
		return strings.Clone(s)
	}
	return c.values[0]
}
