package mysql

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// What the server refuses about a query or a condition is a failure at the start that says what to correct, and a table beside it is
// read all the same. A server that is away is none.
func TestWrongQueriesAreFailures(t *testing.T) { onServers(t, testWrongQueries) }

func testWrongQueries(t *testing.T, start func(*testing.T) *localserver.Database) {
	db := start(t)
	h := harnessOn(t, db.Server, db.Name, "", "CREATE TABLE o (id int PRIMARY KEY, n bigint NOT NULL)", "INSERT INTO o VALUES (1, 1)")
	h.config.Mode, h.config.margin = modeTimestamp, 1
	name := func(s string) string { return strings.ReplaceAll(s, "DB", h.name) }
	good := connectors.TableSpec{Name: name("DB.o"), Cursor: "n"}
	for _, c := range []struct {
		name, query, where, want string
		checked                  bool // check finds it too
	}{
		{"a syntax error", "SELEC id, n FROM DB.o", "", "error in your SQL syntax", true},
		{"a column that is missing", "SELECT id, nothing AS n FROM DB.o", "", "nothing", true},
		{"a table that is missing", "SELECT id, n FROM DB.nowhere", "", "nowhere", true},
		{"a name that is ambiguous", "SELECT id, n FROM DB.o AS a JOIN DB.o AS b ON a.id = b.id", "", "ambiguous", true},
		{"no cursor in the result", "SELECT id FROM DB.o", "", `no column "n", which cursor names`, true},
		{"a condition that is wrong", "SELECT id, n FROM DB.o", "nothing = 1", "nothing", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := connectors.TableSpec{Name: name("DB.q"), Query: name(c.query), Where: c.where, Cursor: "n", Key: []string{"id"}}
			h.close()
			h.mark, h.changes, h.reports = nil, nil, nil
			h.config.Tables = []connectors.TableSpec{wrong}
			if findings, err := check(t.Context(), h.config, h.env); c.checked && (err != nil || !strings.Contains(fmt.Sprint(findings), c.want)) {
				t.Errorf("check: %v %v, want something about %s", findings, err, c.want)
			}
			h.env.Once = true
			err := io.EOF
			for deadline := time.Now().Add(patience); errors.Is(err, io.EOF) && time.Now().Before(deadline); { // while transactions of others are open nothing is read
				err = h.openTry()
				for err == nil {
					_, err = h.read()
				}
			}
			if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), wrong.Name) {
				t.Errorf("alone: %v, want one that is final and says %q", err, c.want)
			}
			h.config.Tables = []connectors.TableSpec{wrong, good}
			h.extractRow()
			if got := h.texts(); got != "r o -> [1 1]" {
				t.Errorf("beside it was read: %s", got)
			}
			if reason := h.failed(wrong.Name); !strings.Contains(reason, c.want) {
				t.Errorf("it has failed because %q, want %q", reason, c.want)
			}
		})
	}
	h.config.Tables = []connectors.TableSpec{{Name: name("DB.q"), Query: name("SELECT id, n FROM DB.o -- as it is"), Cursor: "n", Key: []string{"id"}}}
	h.extractRow()
	if got := h.texts(); got != "r q -> [1 1]" {
		t.Errorf("a query that is right was read as %s", got)
	}
	h.config.DSN = "mysql://root@127.0.0.1:1/x"
	if err := h.openTry(); err == nil || errors.Is(err, connectors.ErrFatal) {
		t.Errorf("no server: %v, want an error that is tried again", err)
	}
}

// extractRow makes runs from the beginning until there is a row.
func (h *harness) extractRow() {
	h.t.Helper()
	h.mark, h.changes = nil, nil
	for deadline := time.Now().Add(patience); len(h.changes) == 0; {
		if time.Now().After(deadline) {
			h.t.Fatal("no row comes")
		}
		h.extractOnce()
	}
}

// openTry opens an extract at the mark.
func (h *harness) openTry() error {
	h.close()
	s, err := newExtract(h.t.Context(), h.config, h.env, h.mark)
	if err == nil {
		h.source = s
	}
	return err
}

// failed is why a table has stopped; empty: it has not.
func (h *harness) failed(table string) (reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.reports {
		if r.Table == table && r.Phase == connectors.PhaseFailed {
			reason = r.Reason
		}
	}
	return reason
}
