package transform

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trunkline/trunkline/connectors"
)

// castError says what a value is not, and never shows it.
func castError(from, to connectors.Kind) error {
	return fmt.Errorf("a value of kind %v is no %v", from, to)
}

// cast converts a value. What a conversion would lose is an error, but for digits behind the point, which numeric(p,s) rounds.
func cast(v connectors.Value, t Type) (connectors.Value, error) {
	if v.IsNull() || v.IsAbsent() {
		return v, nil
	}
	refuse := castError(v.Kind(), t.kind)
	text := string(v.AppendText(nil))
	switch t.kind {
	case connectors.Bool:
		return castBool(v, text, refuse)
	case connectors.Int, connectors.Uint, connectors.Decimal, connectors.Float:
		return castNumber(v, text, t, refuse)
	case connectors.Text, connectors.Interval:
		if v.Kind() == connectors.Bytes && !utf8.ValidString(text) {
			return v, errors.New("the bytes are not UTF-8")
		}
		return textValue(t.kind, text), nil
	case connectors.Bytes:
		return textValue(t.kind, text), nil
	case connectors.JSON:
		return castJSON(v, text)
	case connectors.Date, connectors.Time, connectors.Timestamp, connectors.TimestampTZ:
		return castMoment(v, text, t.kind, refuse)
	case connectors.Bits:
		if strings.Trim(text, "01") != "" {
			return v, refuse
		}
		return textValue(t.kind, text), nil
	case connectors.Array, connectors.Map:
		return castContainer(text, t.kind, refuse)
	}
	return v, refuse
}

func textValue(k connectors.Kind, text string) connectors.Value {
	return connectors.DataValue(k, []byte(text))
}

func castBool(v connectors.Value, text string, refuse error) (connectors.Value, error) {
	if v.Kind() == connectors.Bool {
		return v, nil
	}
	switch strings.ToLower(text) {
	case "true", "t", "yes", "y", "on", "1":
		return connectors.BoolValue(true), nil
	case "false", "f", "no", "n", "off", "0":
		return connectors.BoolValue(false), nil
	}
	return v, refuse
}

// intBits are the sizes of types that are smaller than their kind.
var intBits = map[string]int{"smallint": 16, "int": 32, "integer": 32}

func castNumber(v connectors.Value, text string, t Type, refuse error) (connectors.Value, error) {
	if v.Kind() == connectors.Bool {
		text = "0"
		if v.Bool() {
			text = "1"
		}
	}
	d, err := parseDecimal(strings.TrimSpace(text))
	if err != nil {
		return v, refuse
	}
	switch t.kind {
	case connectors.Float:
		if v.Kind() == connectors.Float {
			return v, nil
		}
		f, err := strconv.ParseFloat(d.String(), 64)
		if err != nil {
			return v, refuse
		}
		return floatValue(f), nil
	case connectors.Decimal:
		if t.scale >= 0 {
			d = d.round(t.scale)
		}
		return textValue(connectors.Decimal, d.String()), nil
	}
	if d.form != 0 {
		return v, refuse
	}
	whole := d.round(0)
	if whole.compare(d) != 0 {
		return v, errors.New("a number with a fraction is no whole number; round it first: round(x, 0)")
	}
	if t.kind == connectors.Uint {
		if !whole.digits.IsUint64() {
			return v, errors.New("the number is out of range")
		}
		return connectors.UintValue(whole.digits.Uint64()), nil
	}
	if bits := intBits[t.name]; !whole.digits.IsInt64() || bits > 0 && whole.digits.Int64() != whole.digits.Int64()<<(64-bits)>>(64-bits) {
		return v, errors.New("the number is out of range")
	}
	return connectors.IntValue(whole.digits.Int64()), nil
}

func floatValue(f float64) connectors.Value {
	switch {
	case math.IsNaN(f):
		return textValue(connectors.Float, "NaN")
	case math.IsInf(f, 1):
		return textValue(connectors.Float, "Infinity")
	case math.IsInf(f, -1):
		return textValue(connectors.Float, "-Infinity")
	case f == 0 && math.Signbit(f):
		return textValue(connectors.Float, "-0.0")
	}
	return textValue(connectors.Float, strconv.FormatFloat(f, 'g', -1, 64))
}

func castJSON(v connectors.Value, text string) (connectors.Value, error) {
	switch v.Kind() {
	case connectors.JSON, connectors.Array, connectors.Map, connectors.Text:
		if !connectors.ValidJSON([]byte(text)) {
			return v, errors.New("the text is not JSON")
		}
		return textValue(connectors.JSON, text), nil
	}
	return connectors.DataValue(connectors.JSON, connectors.AppendJSON(nil, v)), nil
}

func castContainer(text string, kind connectors.Kind, refuse error) (connectors.Value, error) {
	open := byte('[')
	if kind == connectors.Map {
		open = '{'
	}
	text = strings.TrimSpace(text)
	if text == "" || text[0] != open || !connectors.ValidJSON([]byte(text)) {
		return connectors.Value{}, refuse
	}
	return textValue(kind, text), nil
}

var (
	clock = regexp.MustCompile(`^\d\d:\d\d(:\d\d(\.\d+)?)?$`)
	iso   = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)
)

// castMoment converts between dates and times. A timestamp without a zone is taken for UTC.
func castMoment(v connectors.Value, text string, kind connectors.Kind, refuse error) (connectors.Value, error) {
	if v.Kind() == kind {
		return v, nil
	}
	from := v.Kind()
	if from == connectors.Text {
		if kind == connectors.Time {
			if !clock.MatchString(text) {
				return v, refuse
			}
			return textValue(kind, text), nil
		}
		at, err := parseMoment(text)
		if err != nil {
			return v, refuse
		}
		text, from = at.UTC().Format("2006-01-02T15:04:05.999999999Z"), connectors.TimestampTZ
	}
	if !iso.MatchString(text) || from == connectors.Time {
		return v, refuse
	}
	day, hours, _ := strings.Cut(strings.TrimSuffix(text, "Z"), "T")
	if hours == "" {
		hours = "00:00:00"
	}
	switch kind {
	case connectors.Date:
		return textValue(kind, day), nil
	case connectors.Time:
		return textValue(kind, hours), nil
	case connectors.Timestamp:
		return textValue(kind, day+"T"+hours), nil
	}
	return textValue(kind, day+"T"+hours+"Z"), nil
}

func parseMoment(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("no date or time")
}
