package sqlite

import (
	"errors"
	"fmt"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// wide is a table of PostgreSQL.
var wide = &connectors.Table{Dialect: "postgres", Schema: "public", Name: "wide", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Type: "integer", Kind: connectors.Int}, {Name: "n", Type: "numeric", Kind: connectors.Decimal},
	{Name: "f", Type: "double precision", Kind: connectors.Float}, {Name: "d", Type: "date", Kind: connectors.Date}}}

func wideRow(id int64, n, f, d string) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: wide, After: []connectors.Value{connectors.IntValue(id),
		connectors.DataValue(connectors.Decimal, []byte(n)), connectors.DataValue(connectors.Float, []byte(f)), connectors.DataValue(connectors.Date, []byte(d))}}
}

const manyDigits = "12345678901234567890123456789012345678901234567890123456789012345" // 65 of them

// F19: what a column that is not the sink's own does not hold follows the policy: digits where SQLite would make a double of a
// text, and every value of another type in a STRICT table. Nothing is rounded.
func TestUnrepresentableValuesFollowThePolicy(t *testing.T) {
	t.Parallel()
	rows := []connectors.Change{wideRow(1, "1.10", "0.5", "2026-01-30"), wideRow(2, manyDigits, "0.5", "2026-01-30"), wideRow(3, "NaN", "NaN", "infinity"),
		wideRow(4, "9223372036854775807", "1e+300", "0044-03-15 BC")}
	for name, c := range map[string]struct {
		create string
		policy connectors.Unrepresentable
		want   string
		count  int64
	}{
		"columns of the sink's own": {"", connectors.UnrepresentableDeadLetter,
			"1|1.10|0.5|2026-01-30 2|" + manyDigits + "|0.5|2026-01-30 3|NaN|NaN|infinity 4|9223372036854775807|1.0e+300|0044-03-15 BC ", 0},
		"numbers, null": {"CREATE TABLE wide (id INTEGER PRIMARY KEY, n NUMERIC, f REAL, d DATE)", connectors.UnrepresentableNull,
			"1|1.1|0.5|2026-01-30 2|-|0.5|2026-01-30 3|NaN|NaN|infinity 4|9223372036854775807|1.0e+300|0044-03-15 BC ", 1},
		"numbers, text": {"CREATE TABLE wide (id INTEGER PRIMARY KEY, n NUMERIC, f REAL, d DATE)", connectors.UnrepresentableText,
			"1|1.1|0.5|2026-01-30| 2|-|0.5|2026-01-30|{\"n\":\"" + manyDigits + "\"} 3|NaN|NaN|infinity| 4|9223372036854775807|1.0e+300|0044-03-15 BC| ", 1},
		"strict, text": {"CREATE TABLE wide (id INTEGER PRIMARY KEY, n REAL, f REAL, d TEXT) STRICT", connectors.UnrepresentableText,
			"1|1.1|0.5|2026-01-30| 2|-|0.5|2026-01-30|{\"n\":\"" + manyDigits + "\"} 3|-|-|infinity|{\"n\":\"NaN\",\"f\":\"NaN\"} 4|-|1.0e+300|0044-03-15 BC|{\"n\":\"9223372036854775807\"} ", 4},
		"strict, dead letters": {"CREATE TABLE wide (id INTEGER PRIMARY KEY, n REAL, f REAL, d TEXT) STRICT", connectors.UnrepresentableDeadLetter, "1|1.1|0.5|2026-01-30 ", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFile(t)
			if c.create != "" {
				f.exec(c.create)
			}
			config := f.sink()
			config.Unrepresentable = c.policy
			env, count := connectors.NewEnv("copy"), int64(0)
			env.Report = func(r connectors.Report) { count += r.Unrepresentable }
			s, err := openSink(t.Context(), config, env)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(t.Context())
			changes := rows
			err = s.Write(t.Context(), connectors.Batch{Stream: "wide/0", Position: connectors.Position("1"), Changes: changes})
			var refused *connectors.RowsError
			if errors.As(err, &refused) {
				changes = nil
				for i, row := range rows {
					if len(refused.Rows) > 0 && refused.Rows[0].Index == i {
						refused.Rows = refused.Rows[1:]
						continue
					}
					changes = append(changes, row)
				}
				err = s.Write(t.Context(), connectors.Batch{Stream: "wide/0", Position: connectors.Position("1"), Changes: changes})
			}
			if err != nil {
				t.Fatal(err)
			}
			extra := ""
			if c.policy == connectors.UnrepresentableText {
				extra = " || '|' || coalesce(_unrepresentable, '')"
			}
			var got string
			query := "SELECT group_concat(id || '|' || coalesce(n, '-') || '|' || coalesce(f, '-') || '|' || d" + extra + ", ' ') || ' ' FROM (SELECT * FROM wide ORDER BY id)"
			if err := f.db.QueryRowContext(t.Context(), query).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != c.want || count != c.count {
				t.Errorf("rows %q with a count of %d,\nwant %q and %d", got, count, c.want, c.count)
			}
		})
	}
}

func TestDigitsThatANumberKeeps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"0": true, "-1.10": true, "9223372036854775807": true, "-9223372036854775808": false, "9223372036854775808": false,
		"123456789012345": true, "0.1234567890123456": false, "1000000000000000000000": true, "1e40": true, "1.2345678901234567e3": false,
		"12345678901234567.000": true, "NaN": true, "infinity": true} {
		if got := keepsDigits([]byte(text), false); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if keepsDigits([]byte("9007199254740993"), true) {
		t.Error("a double keeps 2^53 + 1")
	}
	for text, want := range map[string]bool{"1.00": true, "1.5": false, "1e3": false, "": false, "-": false, "x": false} {
		if got := isWhole([]byte(text)); got != want {
			t.Errorf("%q is whole: %v", text, got)
		}
	}
	if fmt.Sprint(isNumeral([]byte("1e")), isNumeral([]byte("1e-5")), isNumeral([]byte(".5"))) != "false true true" {
		t.Error("numerals are told wrong")
	}
}
