package postgres

import (
	"strings"
	"testing"
)

// F19: what a type can hold besides ordinary values comes whole in both phases.
func TestSpecialValues(t *testing.T) {
	t.Parallel()
	const row1 = `('NaN', 'NaN', 'NaN', 'infinity', '-infinity', 'infinity', '24:00:00', -9223372036854775808)`
	const row2 = `('Infinity', 1.10, '-Infinity', '0044-03-15 12:00+00 BC', '294276-12-31 23:59:59.999999', '4713-01-01 BC', '00:00', 9007199254740993)`
	columns := " (nn, np, f, ts, tn, d, t, i8) VALUES "
	h := newHarness(t, "public.sp", `CREATE TABLE sp (id serial PRIMARY KEY, nn numeric, np numeric(10,2), f float8, ts timestamptz, tn timestamp, d date, t time, i8 bigint)`,
		`INSERT INTO sp`+columns+row1+`, `+row2)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO sp` + columns + row1 + `, ` + row2)
	h.untilCount(4)
	want := []string{"NaN NaN NaN infinity -infinity infinity 24:00:00 -9223372036854775808",
		"Infinity 1.10 -Infinity 0044-03-15 12:00:00+00 BC 294276-12-31 23:59:59.999999 4713-01-01 BC 00:00:00 9007199254740993"}
	for i, c := range h.changes {
		_, got, _ := strings.Cut(strings.Trim(rowText(c.After), "[]"), " ")
		if got != want[i%2] {
			t.Errorf("%s %s, want %s", c.Op, got, want[i%2])
		}
	}
}

// F21: JSON keeps its digits, and json its bytes, in both phases and after an update of another column.
func TestJSONIsKept(t *testing.T) {
	t.Parallel()
	const b, j = `{"d": 0.10, "e": 10000000000000000000000000000000000000000, "n": 1234567890123456789, "z": 18446744073709551615}`, `{"b":1,  "a":2,"a":3}`
	h := newHarness(t, "public.doc", `CREATE TABLE doc (id serial PRIMARY KEY, n int, b jsonb, j json)`,
		`INSERT INTO doc (b, j) VALUES ('{"n":1234567890123456789,"d":0.10,"z":18446744073709551615,"e":1e40}', '`+j+`')`)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO doc (b, j) SELECT b, j FROM doc`, `UPDATE doc SET n = 1 WHERE id = 2`)
	h.untilCount(3)
	for _, c := range h.changes {
		if got := string(c.After[2].Data()); got != b {
			t.Errorf("%s: jsonb %s", c.Op, got)
		}
		if got := string(c.After[3].Data()); got != j {
			t.Errorf("%s: json %s", c.Op, got)
		}
	}
}
