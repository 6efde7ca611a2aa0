package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// The columns that a sink makes hold every value. A column that somebody else has made may not: a number's digits beyond the
// fifteenth go where its affinity makes a number of the text, and a STRICT table takes the values of its type alone.

// foreign reports a table of another kind of database. What comes from SQLite goes back as it was.
func foreign(t *connectors.Table) bool { return t != nil && t.Dialect != dialect }

// holds says which values the columns of a table's target hold.
func (s *sink) holds(ctx context.Context, t *connectors.Table) ([]connectors.Holds, error) {
	tg, err := s.target(ctx, t)
	if err != nil {
		return nil, err
	}
	return tg.holds, nil
}

// isStrict reports a table that checks the types of its values.
func isStrict(ctx context.Context, q querier, name string) (bool, error) {
	n, err := number(ctx, q, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND strict AND name = '"+strings.ReplaceAll(name, "'", "''")+"'")
	if err != nil {
		return false, fmt.Errorf("read options of %s: %w", name, err)
	}
	return n > 0, nil
}

// columnHolds is nil where the column holds everything that is bound to it.
func columnHolds(c *connectors.Column, declared string, strict bool) connectors.Holds {
	kind := affinity(declared)
	isReal := kind == "real"
	if !strict {
		exact := c.Kind == connectors.Decimal || c.Kind == connectors.Uint || c.Kind == connectors.Int && isReal
		if exact && (isReal || kind == "integer" || kind == "numeric") {
			return func(v connectors.Value) bool { return keepsDigits(v.AppendText(nil), isReal) }
		}
		return nil
	}
	switch strings.ToUpper(declared) {
	case "ANY":
		return nil
	case "TEXT":
		return func(v connectors.Value) bool { return v.Kind() != connectors.Bytes }
	case "BLOB":
		return func(v connectors.Value) bool { return v.Kind() == connectors.Bytes }
	case "REAL":
		return func(v connectors.Value) bool {
			return v.Kind() != connectors.Bytes && isNumeral(v.AppendText(nil)) && (v.Kind() == connectors.Float || keepsDigits(v.AppendText(nil), true))
		}
	}
	return func(v connectors.Value) bool { // INT, INTEGER
		return v.Kind() == connectors.Bool || v.Kind() != connectors.Bytes && isWhole(v.AppendText(nil)) && keepsDigits(v.AppendText(nil), false)
	}
}

// isNumeral reports digits with or without a sign, a point and an exponent: what SQLite makes a number of.
func isNumeral(text []byte) bool {
	text, exponent, found := bytes.Cut(bytes.ToLower(text), []byte{'e'})
	if found && !isDigits(bytes.TrimLeft(exponent, "+-")) {
		return false
	}
	before, after, _ := bytes.Cut(bytes.TrimPrefix(text, []byte{'-'}), []byte{'.'})
	return isDigits(append(bytes.Clone(before), after...))
}

// isWhole reports a number without digits other than 0 behind its point.
func isWhole(text []byte) bool {
	_, after, _ := bytes.Cut(text, []byte{'.'})
	return isNumeral(text) && !bytes.ContainsAny(text, "eE") && len(bytes.Trim(after, "0")) == 0
}

func isDigits(text []byte) bool {
	return len(text) > 0 && len(bytes.Trim(text, "0123456789")) == 0
}

// maxDigits is how many digits of every number a double keeps; maxWhole is the largest integer.
const (
	maxDigits = 15
	maxWhole  = "9223372036854775807"
)

// keepsDigits reports whether SQLite keeps all digits of a number, as a double alone or as an integer where it is one. What is
// no number stays the text that it is.
func keepsDigits(text []byte, double bool) bool {
	if !isNumeral(text) {
		return true
	}
	mantissa, exponent, _ := bytes.Cut(bytes.ToLower(bytes.TrimPrefix(text, []byte{'-'})), []byte{'e'})
	before, after, _ := bytes.Cut(mantissa, []byte{'.'})
	after = bytes.TrimRight(after, "0")
	before = bytes.TrimLeft(before, "0")
	if !double && len(after) == 0 && len(exponent) == 0 && (len(before) < len(maxWhole) || len(before) == len(maxWhole) && string(before) <= maxWhole) {
		return true
	}
	digits := bytes.Trim(append(bytes.Clone(before), after...), "0")
	return len(digits) <= maxDigits
}
