package connectors

import (
	"errors"
	"strings"
	"testing"
)

func TestIsDate(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-01-30": true, "0001-01-01": true, "9999-12-31": true, "2024-02-29": true, "2000-02-29": true, "2026-01-30T12:34:56Z": true, "2026-01-30 12:34:56": true,
		"2026-02-29": false, "1900-02-29": false, "0000-00-00": false, "2026-00-00": false, "2026-04-31": false, "2026-13-01": false, "0000-01-01": false,
		"infinity": false, "-infinity": false, "12026-01-01": false, "0044-03-15 BC": false, "0044-03-15 12:00:00 BC": false, "": false, "2026-01": false, "2026-01-30x": false,
	} {
		if IsDate([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// fitTable has a key, two columns whose target holds no "bad", and one that holds everything.
var fitTable = &Table{Schema: "s", Name: "t", Key: []int{0}, Columns: []Column{{Name: "id", Kind: Text}, {Name: "a", Kind: Text}, {Name: `b"`, Kind: Text}, {Name: "free", Kind: Text}}}

func fitRow(values ...string) []Value {
	var row []Value
	for _, v := range values {
		switch v {
		case "NULL":
			row = append(row, NullValue())
		case "ABSENT":
			row = append(row, Value{})
		default:
			row = append(row, DataValue(Text, []byte(v)))
		}
	}
	return row
}

func showRow(row []Value) string {
	var out []string
	for _, v := range row {
		switch {
		case v.IsNull():
			out = append(out, "NULL")
		case v.IsAbsent():
			out = append(out, "ABSENT")
		default:
			out = append(out, string(v.Data()))
		}
	}
	return strings.Join(out, "|")
}

func TestFitter(t *testing.T) {
	good := func(v Value) bool { return string(v.Data()) != "bad" }
	holds := func(*Table) ([]Holds, error) { return []Holds{good, good, good, nil}, nil }
	foreign := func(*Table) bool { return true }
	for _, c := range []struct {
		name          string
		policy        Unrepresentable
		op            Op
		before, after []Value
		want          string // the new row, or the old one of a delete; or a part of the error
		count         int64
	}{
		{"a row that fits stays", UnrepresentableDeadLetter, Insert, nil, fitRow("1", "x", "NULL", "bad"), "1|x|NULL|bad", 0},
		{"a dead letter", UnrepresentableDeadLetter, Insert, nil, fitRow("1", "bad", "y", "z"), `column "a"`, 1},
		{"a null", UnrepresentableNull, Update, nil, fitRow("1", "bad", "y", "bad"), "1|NULL|y|bad", 1},
		{"a text", UnrepresentableText, Snapshot, nil, fitRow("1", "bad", "bad", "z"), `1|NULL|NULL|z|{"a":"bad","b\"":"bad"}`, 2},
		{"no text", UnrepresentableText, Insert, nil, fitRow("1", "x", "y", "z"), "1|x|y|z|NULL", 0},
		{"what is not carried keeps its text", UnrepresentableText, Update, nil, fitRow("1", "x", "ABSENT", "z"), "1|x|ABSENT|z|ABSENT", 0},
		{"a key cannot be null", UnrepresentableText, Insert, nil, fitRow("bad", "x", "y", "z"), "part of the key", 1},
		{"an old row is there for its key", UnrepresentableDeadLetter, Delete, fitRow("1", "bad", "ABSENT", "ABSENT"), nil, "1|bad|ABSENT|ABSENT", 0},
		{"an old row of a text", UnrepresentableText, Delete, fitRow("1", "bad", "y", "ABSENT"), nil, "1|NULL|y|ABSENT|ABSENT", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var count int64
			f := NewFitter(c.policy, func(r Report) { count += r.Unrepresentable })
			changes := []Change{{Op: c.op, Table: fitTable, Before: c.before, After: c.after}}
			shown := showRow(c.before) + showRow(c.after)
			got, err := f.Fit(changes, foreign, holds)
			if err == nil {
				f.Written()
				row := got[0].After
				if c.op == Delete {
					row = got[0].Before
				}
				if showRow(row) != c.want || len(row) != len(got[0].Table.Columns) {
					t.Errorf("%s, want %s", showRow(row), c.want)
				}
			}
			var refused *RowsError
			if err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "bad")) {
				t.Errorf("the error is %v", err)
			}
			if count != c.count {
				t.Errorf("%d counted, want %d", count, c.count)
			}
			if showRow(changes[0].Before)+showRow(changes[0].After) != shown || changes[0].Table != fitTable {
				t.Error("the batch itself was changed")
			}
		})
	}
}
