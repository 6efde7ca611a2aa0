package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// atMoment returns the tables of a snapshot as they are at its moment. One that has changed since an earlier moment of the
// same snapshot, which a crash ended, is left out: the stream begins at the earlier one, and would bring rows of its old
// shape behind those of its new one. Where no stream follows, it is read as a whole again.
func (s *Source) atMoment(ctx context.Context, conn *pgx.Conn) ([]*snapshotTable, error) {
	list, err := s.catalog.relationsOn(ctx, conn, 0)
	if err != nil {
		return nil, fmt.Errorf("list tables of the snapshot: %w", err)
	}
	var tables []*snapshotTable
	for _, t := range s.tables {
		if slices.Contains(s.added, t.relation) || slices.Contains(s.pos.Snapshot.Changed, t.oid) {
			continue
		}
		i := slices.IndexFunc(list, func(r *relation) bool { return r.oid == t.oid })
		if i < 0 {
			s.changed(t.relation, "it was dropped, or has another name")
			continue
		}
		shape, err := s.catalog.shapeOf(ctx, list[i])
		if err != nil {
			return nil, err
		}
		before, begun := s.versions.tables[t.oid]
		anew := begun && (!equal(before, shape.columns()) || s.imprints.replaced(list[i]))
		if anew && s.config.Snapshot != snapshotOnly {
			s.changed(t.relation, "its columns, its key or its name are others")
			continue
		}
		t.relation, t.shape = list[i], shape
		s.versions.set(t.oid, shape.columns(), shape.table)
		if !begun {
			s.imprints.accept(t.relation)
		}
		tables = append(tables, &snapshotTable{relation: t.relation, shape: t.shape, anew: anew})
	}
	return tables, nil
}

// changed leaves a table out of the snapshot. It is read when the stream goes on.
func (s *Source) changed(r *relation, why string) {
	if s.config.Snapshot == snapshotOnly || slices.Contains(s.pos.Snapshot.Changed, r.oid) {
		return
	}
	s.pos.Snapshot.Changed = with(s.pos.Snapshot.Changed, r.oid)
	s.env.Logger.Info("a table changed while the snapshot was taken; it is read when the stream goes on", "source", s.env.Name, "table", r.full(), "reason", why)
	s.env.Report(connectors.Report{Table: r.full(), Phase: connectors.PhaseSnapshot, Reason: "it changed while the snapshot was taken, and is read when the stream goes on: " + why})
}

// finishSnapshot notes which tables are complete. Those that changed are void, and wait for their turn.
func (s *Source) finishSnapshot() {
	s.pos.Tables = s.oids()
	for _, oid := range s.pos.Snapshot.Changed {
		s.pos.Tables, s.pos.Begun = without(s.pos.Tables, oid), with(s.pos.Begun, oid)
	}
	s.pos.Snapshot = nil
}
