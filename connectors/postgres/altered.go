package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// lookAt judges a table by what the catalog says of it, and has it read anew where its rows were changed without a word in
// the stream. It may be called from any goroutine.
func (s *Source) lookAt(r *relation) {
	v := s.imprints.judge(r)
	if v.reason == "" {
		return
	}
	if s.config.Altered == alteredWarn {
		s.imprints.accept(r)
		s.env.Logger.Warn("rows changed that the stream does not show; read the table anew with resync", "source", s.env.Name, "table", r.full(), "reason", v.reason)
		s.env.Report(connectors.Report{Table: r.full(), Reason: v.reason + ": rows from before are as they were until: trunkline resync " + s.env.Name + "/" + r.full()})
		return
	}
	if s.syncs.request(syncRequest{oid: r.oid, replace: v.replace}) {
		s.env.Logger.Info("reading the table anew", "source", s.env.Name, "table", r.full(), "reason", v.reason)
		s.env.Report(connectors.Report{Table: r.full(), Reason: "read anew: " + v.reason})
		s.wake()
	}
}

// passing reports a failure to read a table that another ALTER in the meantime explains, so that trying again helps.
func passing(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, errRewritten) || errors.Is(err, errUnseen) ||
		errors.As(err, &pg) && strings.HasPrefix(pg.Code, "42") && pg.Code != "42501"
}

// follow gives the table its new version. Where the rows are found under another name or key from here on, what was handed
// over before is void: the changes from here on are left out, and the table is read anew as if it were a new one.
func (s *stream) follow(t *tracked, r *relation, next *shape) {
	old := t.shape
	t.relation, t.shape = r, next
	if old == nil || s.keeps || s.covered || t.sync != nil || t.waits {
		return
	}
	renamed := old.table.FullName() != next.table.FullName()
	if !renamed && slices.Equal(keyIDs(old.table), keyIDs(next.table)) {
		return
	}
	t.waits = true
	s.pos.Tables, s.pos.Begun = without(s.pos.Tables, t.oid), with(s.pos.Begun, t.oid)
	s.syncs.request(syncRequest{oid: t.oid, replace: true})
}

// keyIDs are the attribute numbers of the key.
func keyIDs(t *connectors.Table) []int {
	ids := []int{}
	for _, k := range t.Key {
		ids = append(ids, t.Columns[k].ID)
	}
	return ids
}

// renamedAway ends the capture of a table whose new name the configuration does not choose.
func (s *stream) renamedAway(t *tracked, m *relationMessage) {
	if !t.waits {
		s.syncs.failed(t, false, fmt.Errorf("it is called %s.%s now, which tables does not choose", m.schema, m.name))
	}
	t.waits = true
	s.pos.Tables, s.pos.Begun = without(s.pos.Tables, t.oid), without(s.pos.Begun, t.oid)
}
