package clickhouse_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// oddRow has what Decimal, DateTime64 and Date32 do not hold.
func oddRow(id int64) connectors.Change {
	row := typedRow(id)
	row[1] = value(connectors.Decimal, "NaN")
	row[4] = value(connectors.TimestampTZ, "infinity")
	row[5] = value(connectors.Date, "0044-03-15 BC")
	return insert(row)
}

// F19: a value that a column does not hold follows the policy, in a row that is new and in one that changes, and is counted
// once it is written.
func TestUnrepresentableValuesFollowThePolicy(t *testing.T) {
	t.Parallel()
	server := startNew(t)
	const odd = "SELECT arrayStringConcat([toString(id), ifNull(toString(price), '-'), ifNull(toString(at), '-'), ifNull(toString(day), '-')EXTRA], ' ') FROM SCHEMA.typed FINAL WHERE id = 1"
	for policy, want := range map[connectors.Unrepresentable]struct {
		extra, row string
		count      int64
	}{
		connectors.UnrepresentableNull: {"", "1 - - -", 3},
		connectors.UnrepresentableText: {", assumeNotNull(_unrepresentable)", `1 - - - {"price":"NaN","at":"infinity","day":"0044-03-15 BC"}`, 3},
	} {
		s := server.store(t)
		s.config.Unrepresentable = policy
		env, count := connectors.NewEnv("analytics"), int64(0)
		env.Report = func(r connectors.Report) { count += r.Unrepresentable }
		opened, err := s.open()(t.Context(), env)
		s.must(err)
		defer opened.Close(t.Context())
		s.must(opened.Write(t.Context(), batch(0, oddRow(1), insert(typedRow(2)))))
		if got := s.text(strings.Replace(odd, "EXTRA", want.extra, 1)); got != want.row || count != want.count {
			t.Errorf("%s: row %s with a count of %d, want %s and %d", policy, got, count, want.row, want.count)
		}
		good := insert(typedRow(1)) // nothing of the odd values stays
		good.Op = connectors.Update
		s.must(opened.Write(t.Context(), batch(2, good)))
		if got := s.text("SELECT ifNull(toString(price), '-') FROM SCHEMA.typed FINAL WHERE id = 1"); got != "-1234567890.1" {
			t.Errorf("%s: price %s after the row was put right", policy, got)
		}
		if want.extra != "" {
			if got := s.text("SELECT ifNull(_unrepresentable, '-') FROM SCHEMA.typed FINAL WHERE id = 1"); got != "-" {
				t.Errorf("%s: %s stands beside a row that was put right", policy, got)
			}
		}
	}
}

// A column without NULL, and a key, have no place for what they do not hold: the row is refused whatever the policy is.
func TestColumnsWithoutNullRefuseWhatTheyDoNotHold(t *testing.T) {
	t.Parallel()
	s := startNew(t).store(t)
	s.config.Unrepresentable = connectors.UnrepresentableText
	s.must(s.sink().Write(t.Context(), batch(0, insert(typedRow(1)))))
	s.exec("ALTER TABLE SCHEMA.typed MODIFY COLUMN price Decimal(12, 2) DEFAULT 0")
	err := s.sink().Write(t.Context(), batch(1, oddRow(2), insert(typedRow(3))))
	var rows *connectors.RowsError
	if !errors.As(err, &rows) || len(rows.Rows) != 1 || rows.Rows[0].Index != 0 {
		t.Errorf("write: %v, want the first row refused", err)
	}
}
