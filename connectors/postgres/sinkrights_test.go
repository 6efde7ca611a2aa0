package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// TestDocumentedRightsAreEnough runs a sink as the user of docs/sinks/postgres.md: it makes what is missing, follows
// changes of a table that it owns, and writes into one that it does not.
func TestDocumentedRightsAreEnough(t *testing.T) {
	st := newSinkTest(t)
	database := st.query("SELECT current_database()")
	user := database + "_etl"
	for _, statement := range conformance.DocumentedStatements(t, "../../docs/sinks/postgres.md", "etl", quote(user), "DATABASE warehouse", "DATABASE "+quote(database)) {
		st.exec(statement)
	}
	t.Cleanup(func() {
		for _, statement := range []string{"DROP OWNED BY " + quote(user) + " CASCADE", "DROP ROLE " + quote(user)} {
			if _, err := st.conn.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
	st.exec("CREATE TABLE theirs (id int PRIMARY KEY, name text)")
	st.exec("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON theirs TO " + quote(user))
	as := func(config *SinkConfig) { config.DSN = strings.Replace(config.DSN, "postgres@", user+"@", 1) }
	s := st.open(as)

	other := tableOf("ours", 1, "id integer", "name text")
	other.Schema = "fresh"
	wider := tableOf("ours", 1, "id integer", "name text", "price numeric(10,2)")
	wider.Schema = "fresh"
	for _, table := range []*connectors.Table{other, tableOf("theirs", 1, "id integer", "name text")} {
		st.migrate(s, nil, table)
		st.write(s, inserted(table, 1, "a"), inserted(table, 2, "b"))
		st.write(s, truncated(table), inserted(table, 1, "a"), inserted(table, 2, "b"), inserted(table, 3, "c"))
		st.write(s, updated(table, 2, "B"), deleted(table, 1))
	}
	st.migrate(s, other, wider)
	st.write(s, inserted(wider, 4, "d", "4.50"))
	st.want("SELECT * FROM fresh.ours ORDER BY id", "2|B|NULL\n3|c|NULL\n4|d|4.50")
	st.want("SELECT * FROM theirs ORDER BY id", "2|B\n3|c")
}
