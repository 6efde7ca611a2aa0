package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

func TestSinkCheck(t *testing.T) {
	st := newSinkTest(t)
	find := func(config SinkConfig) string {
		t.Helper()
		check, err := checkSink(func(into any) error { *into.(*SinkConfig) = config; return config.Validate() })
		if err != nil {
			t.Fatal(err)
		}
		findings, err := check(t.Context(), connectors.NewEnv("test"))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, f := range findings {
			lines = append(lines, fmt.Sprintf("%s %s", f.Severity, f.Subject))
		}
		return strings.Join(lines, "; ")
	}
	config := DefaultSinkConfig()
	config.DSN = st.url
	if got := find(config); got != "" {
		t.Errorf("a superuser's own database: %s", got)
	}
	st.want("SELECT count(*) FROM pg_class WHERE relname = '_trunkline_offsets'", "0")

	role := "poor_" + st.query("SELECT current_database()")
	st.exec("CREATE ROLE " + role + " LOGIN; REVOKE TEMPORARY ON DATABASE " + st.query("SELECT current_database()") + " FROM public")
	poor := config
	poor.DSN = withUser(st.url, role)
	database := "database " + st.query("SELECT current_database()")
	if got, want := find(poor), "error "+database+"; warning "+database+"; warning schema public"; got != want {
		t.Errorf("a user without rights: %s, want %s", got, want)
	}
	st.exec("CREATE SCHEMA fixed; CREATE TABLE fixed.item (id int); GRANT USAGE ON SCHEMA fixed TO " + role + "; CREATE TABLE _trunkline_offsets (x int)")
	poor.Table = "fixed.item"
	if got := find(poor); !strings.Contains(got, "error table fixed.item") || !strings.Contains(got, `error "public"."_trunkline_offsets"`) {
		t.Errorf("foreign tables: %s", got)
	}
	st.exec("ALTER DATABASE " + st.query("SELECT current_database()") + " SET default_transaction_read_only = on")
	if got := find(config); !strings.Contains(got, "error default_transaction_read_only") {
		t.Errorf("a read-only user: %s", got)
	}
	st.exec("DROP TABLE _trunkline_offsets; DROP SCHEMA fixed CASCADE; DROP OWNED BY " + role + "; DROP ROLE " + role)

	config.Table, config.Schema = "missing.item", connectors.FollowAll(connectors.Ignore)
	if got := find(config); !strings.Contains(got, "error table missing.item") {
		t.Errorf("a missing target: %s", got)
	}
}

// withUser returns a connection string of the test server for another user.
func withUser(url, user string) string {
	_, rest, _ := strings.Cut(url, "@")
	return "postgres://" + user + "@" + rest
}
