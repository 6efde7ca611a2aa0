package clickhouse_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// TestErrorsHoldNoValues lets the server say what it thinks of rows, in every way in which it quotes them.
func TestErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-of-anne"
	s := startNew(t).store(t)
	person := &connectors.Table{Dialect: "postgres", ID: 7, Schema: "shop", Name: "person", Key: []int{0}, Columns: []connectors.Column{
		{ID: 1, Name: "id", Type: "bigint", Kind: connectors.Int}, {ID: 2, Name: "word", Type: "text", Kind: connectors.Text}}}
	row := func(id int64) connectors.Change {
		c := insert([]connectors.Value{connectors.IntValue(id), value(connectors.Text, secret)})
		c.Table = person
		return c
	}
	s.must(s.sink().Write(t.Context(), batch(0, row(1))))
	for _, c := range []struct {
		name, before, after string
		do                  func(connectors.Migrator) error
		want                string
		rows                bool
	}{
		{"a constraint", "ADD CONSTRAINT short CHECK length(word) < 3", "DROP CONSTRAINT short",
			func(m connectors.Migrator) error { return m.Write(t.Context(), batch(10, row(10), row(11))) }, "error 469 (VIOLATED_CONSTRAINT): constraint `short`", true},
		{"a text that is no number", "ADD COLUMN n Int64 MATERIALIZED toInt64(assumeNotNull(word))", "DROP COLUMN n",
			func(m connectors.Migrator) error { return m.Write(t.Context(), batch(20, row(20))) }, "error 6 (CANNOT_PARSE_TEXT)", true},
		{"an error that is tried again", "ADD COLUMN n Float64 MATERIALIZED parseTimeDelta(assumeNotNull(word))", "DROP COLUMN n",
			func(m connectors.Migrator) error { return m.Write(t.Context(), batch(30, row(30))) }, "error 36 (BAD_ARGUMENTS)", false},
	} {
		s.exec("ALTER TABLE SCHEMA.person " + c.before)
		conn := s.connect()
		raw := conn.Exec(t.Context(), "INSERT INTO "+s.table(person)+" (id, word, _version) VALUES (99, '"+secret+"', 0)")
		if raw == nil || !strings.Contains(raw.Error(), secret) {
			t.Errorf("%s: the server itself says %v, which shows nothing", c.name, raw)
		}
		s.must(conn.Close())
		err := c.do(s.sink())
		var rows *connectors.RowsError
		if err == nil || errors.As(err, &rows) != c.rows {
			t.Fatalf("%s: %v, want refused rows: %t", c.name, err, c.rows)
		}
		texts := []string{err.Error()}
		if rows != nil {
			for _, r := range rows.Rows {
				texts = append(texts, r.Err.Error())
			}
		}
		if !strings.Contains(strings.Join(texts, " "), c.want) {
			t.Errorf("%s: %q, want %q", c.name, texts, c.want)
		}
		for _, text := range texts {
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s quotes a row: %s", c.name, text)
			}
		}
		s.exec("ALTER TABLE SCHEMA.person " + c.after)
	}
}
