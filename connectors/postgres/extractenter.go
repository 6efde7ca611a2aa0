package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/keystore"
)

// A source that was of mode timestamp and is now of mode cdc creates its slot, and reads at the slot's moment the rows
// that no extract has handed over. For the snapshot these are the rows that are newer than a finished part of it, so a
// table comes in with all its files finished. What is committed after that moment comes from the slot.

func otherServer(source string) error {
	return fmt.Errorf("this is another server than the one that was read before (its system identifier differs); read its tables anew with: trunkline resync %s: %w",
		source, connectors.ErrPositionLost)
}

// enter notes what extracts have handed over. A table whose first extract was not finished is read from its beginning.
func (s *Source) enter(ctx context.Context, conn *pgx.Conn) error {
	if s.entry == nil {
		return nil
	}
	s.pos.Snapshot.Files, s.pos.Snapshot.Keys = map[uint32]*fileMark{}, map[uint32]string{}
	for _, t := range s.tables {
		m := s.entry.Tables[t.oid]
		if m == nil || m.First {
			continue
		}
		if m.Keys != "" {
			s.pos.Snapshot.Keys[t.oid] = m.Keys
		}
		files, err := filesOf(ctx, conn, t.relation)
		if err != nil {
			return err
		}
		for _, f := range files {
			s.pos.Snapshot.Files[f.oid] = m.finished(f.node)
		}
	}
	s.entry = nil
	return nil
}

// entryDeletes are the deletes that no extract had looked for.
type entryDeletes struct {
	deletes deletes
	rows    *rows
	at      time.Time
	origin  []byte
}

// enterDeletes compares the keys that extracts knew with those of the snapshot. After a crash it does so again: a delete
// can come twice then.
func (s *Source) enterDeletes(ctx context.Context, conn *pgx.Conn) (err error) {
	if len(s.pos.Snapshot.Keys) == 0 {
		return nil
	}
	store, err := keystore.Open(ctx, filepath.Join(s.env.Dir, "keys.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	g := &entryDeletes{rows: &rows{}, at: time.Now().UTC(), origin: []byte(`"txId":null,"lsn":null,"xmin":null`)}
	g.deletes = deletes{store: store, most: math.MaxInt}
	run := &extractRun{conn: conn}
	run.lookout.clock = g.at
	for _, tracked := range s.tables {
		set, known := s.pos.Snapshot.Keys[tracked.oid]
		if !known {
			continue
		}
		has, err := store.Has(ctx, set)
		if err != nil {
			return err
		}
		if !has {
			s.env.Logger.Error("deletes are missing", "source", s.env.Name, "table", tracked.relation.full(), "reason", errKeysLost.Error())
			s.env.Report(connectors.Report{Table: tracked.relation.full(), Reason: errKeysLost.Error()})
			continue
		}
		t := &extractTable{relation: tracked.relation, shape: tracked.shape, mark: &tableMark{Keys: set}}
		if err := g.deletes.detect(ctx, run, t, connectors.Every(0)); err != nil {
			return err
		}
	}
	s.gone = g
	return nil
}

// readGone returns a batch of deletes. The last one has the position that needs them no more.
func (s *Source) readGone() connectors.Batch {
	g := s.gone
	g.rows.reset()
	if !g.deletes.emit(g.rows, s.env.Limits, g.at, g.origin) {
		s.gone, s.pos.Snapshot.Keys = nil, nil
	}
	return connectors.Batch{Changes: g.rows.changes, Position: s.pos.encode()}
}

// finished is the mark of a file whose rows were handed over as far as the table's mark says.
func (m *tableMark) finished(node uint32) *fileMark {
	f := &fileMark{Node: node, Ranges: [][2]uint32{{0, math.MaxUint32}}, XMin: m.oldest()}
	if len(m.Steps) == 1 {
		f.Seen = m.Steps[0].Seen
	}
	if !m.Nulls {
		f.Nulls = m.Cursor
	}
	return f
}

// newer is the condition on rows that were not handed over. xmin is the snapshot's.
func (f *fileMark) newer(xmin uint64) string {
	condition := fmt.Sprintf("age(xmin) <= age('%d'::xid)", uint32(cmp.Or(f.XMin, xmin)))
	if !f.Seen.IsZero() {
		var list []string
		for _, xid := range slices.Sorted(maps.Keys(f.Seen.set)) {
			list = append(list, strconv.FormatUint(uint64(uint32(xid)), 10))
		}
		condition = "(" + condition + " AND xmin::text::int8 <> ALL ('{" + strings.Join(list, ",") + "}'::int8[]))"
	}
	if f.Nulls != "" {
		condition = "(" + condition + " OR " + ident(f.Nulls) + " IS NULL)"
	}
	return condition
}
