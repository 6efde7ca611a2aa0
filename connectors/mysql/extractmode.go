package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// A source changes its mode by one word of the configuration.
//
// To cdc: at the moment at which the stream begins the rows are read that no extract has handed over, which are those
// behind each table's mark. What is committed after that comes from the binary log.
//
// To timestamp: see leave.

// extractMarkOf returns the mark of mode timestamp that a position holds; nil: it is none.
func extractMarkOf(p connectors.Position) *extractMark {
	m := &extractMark{}
	if json.Unmarshal(p, m) != nil || !m.Extract {
		return nil
	}
	return m
}

// enter reads only what no extract has handed over.
func (t *snapshotTable) enter(m *extractedTable, spec *connectors.TableSpec) {
	if m == nil || m.First || m.Cursor != spec.Cursor || t.shape.def.column(m.Cursor) < 0 {
		return
	}
	names := []string{ident(m.Cursor)}
	for _, k := range keyOf(t.shape.def, spec) {
		names = append(names, ident(k))
	}
	t.cut, t.where, t.brought = cutNot, "TRUE", m.brought()
	if n := len(m.After); n > 0 && n <= len(names) {
		t.where = behind(names[:n], m.After)
	}
	if !m.Nulled {
		t.where = "(" + t.where + " OR " + ident(m.Cursor) + " IS NULL)"
	}
}

// goneOnEntry hands over the deletes that no look has found yet: the keys that mode timestamp knew are compared with those
// that are there at the moment at which the stream begins.
func (s *Source) goneOnEntry(ctx context.Context, m *moment, tables []*snapshotTable) (err error) {
	entry := s.pos.Snapshot.Entry
	if entry == nil || s.config.Deletes != deletesDetect {
		return nil
	}
	d, err := openDeletes(ctx, &s.config, s.env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.most = math.MaxInt // there is no later look
	out := &rows{}
	for _, t := range tables {
		mark := entry[t.name]
		if mark == nil || mark.Keys == "" {
			continue
		}
		if has, err := d.store.Has(ctx, mark.Keys); err != nil {
			return err
		} else if !has {
			s.env.Logger.Error("deletes are missing", "source", s.env.Name, "table", t.name.full(), "reason", errKeysLost.Error())
			s.env.Report(connectors.Report{Table: t.name.full(), Reason: errKeysLost.Error()})
			continue
		}
		k := newKeyColumns(t.shape, t.name.ident(), "") // the whole table: mode cdc has no where
		if k == nil {
			continue
		}
		gone, err := d.detect(ctx, m.r, k, mark.Keys)
		if err != nil {
			return fmt.Errorf("compare keys of table %s: %w", t.name.full(), settle(plain(err)))
		}
		for _, key := range gone {
			k.delete(out, key, time.Now().UTC())
		}
	}
	s.void = append(s.void, out.changes...)
	return nil
}

// keyOf is the key that an extract goes by.
func keyOf(def *definition, spec *connectors.TableSpec) []string {
	if len(spec.Key) > 0 {
		return spec.Key
	}
	return def.Key
}
