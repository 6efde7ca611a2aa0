package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// A repair reads a few rows of a live table anew. It is a sync of these rows alone: they are read at one moment S, changes
// that S has seen go on to be handed over, the others are kept, and between the two stand the rows. From S until the
// kept changes are handed over no batch has a position, so that a crash drops all of it together, and the table is as
// live as it was.

// repairGroup is how many keys are read in one go.
const repairGroup = 500

// repair is what was read.
type repair struct {
	changes []connectors.Change
	given   bool
}

// Repair implements connectors.Repairer.
func (s *Source) Repair(_ context.Context, table string, keys [][]connectors.Value) error {
	s.known.Lock()
	defer s.known.Unlock()
	for _, t := range s.tables {
		if t.name == table {
			for group := range slices.Chunk(keys, repairGroup) {
				var own [][]connectors.Value
				for _, key := range group {
					own = append(own, connectors.CloneRow(key))
				}
				s.syncs.request(syncRequest{oid: t.oid, keys: own})
			}
			s.wake()
			return nil
		}
	}
	return fmt.Errorf("repair table %s: source %q does not read it", strconv.Quote(table), s.env.Name)
}

// startRepair reads the rows and begins to keep the changes of the table.
func (s *stream) startRepair(ctx context.Context, r syncRequest) error {
	table := s.tables[r.oid]
	if table == nil || !slices.Contains(s.pos.Tables, r.oid) {
		return nil // a table that is read as a whole needs no repair
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	target := syncTarget{relation: table.relation, shape: table.shape, published: table.published, recent: s.handedOver()}
	source, changes, err := s.syncs.reread(ctx, target, r.keys)
	if err != nil {
		s.postpone(r, table, err)
		return nil
	}
	f, err := newSpool(s.dir, fmt.Sprintf("table-%d", r.oid))
	if err != nil {
		return err
	}
	if err := s.wal.status(true); err != nil { // the answer tells how far the server is
		f.remove()
		return err
	}
	t := &tableSync{table: table, shape: table.shape, spool: f, wasLive: true, source: source, repair: &repair{changes: changes}, cancel: func() {}}
	table.sync, s.syncs.current, s.held = t, t, true
	return nil
}

// repairMore hands over the rows once the stream has passed everything that they have seen.
func (s *stream) repairMore(t *tableSync) (connectors.Batch, bool, error) {
	switch {
	case max(s.end, s.serverEnd) < t.source.until:
		return connectors.Batch{}, false, nil
	case t.repair.given:
		return connectors.Batch{}, false, s.startDrain(t)
	}
	t.repair.given = true
	b := s.take()
	b.Changes = t.repair.changes
	return b, true, nil
}

// reread reads rows by their keys at one moment.
func (s *Source) reread(ctx context.Context, t syncTarget, keys [][]connectors.Value) (*syncSource, []connectors.Change, error) {
	relation, found, err := s.catalog.refresh(ctx, t.relation)
	if err == nil && !found {
		err = fmt.Errorf("table %s is gone", t.relation.full())
	}
	if err != nil {
		return nil, nil, err
	}
	shape, err := s.catalog.shapeOf(ctx, relation)
	if err != nil {
		return nil, nil, err
	}
	if t.shape != nil && t.shape.table.Equal(shape.table) {
		shape.table = t.shape.table
	}
	out := &syncSource{}
	var changes []connectors.Change
	err = s.catalog.separate(ctx, func(conn *pgx.Conn) error {
		var text string
		if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
			return err
		}
		if err := conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&text); err != nil {
			return err
		}
		if out.seen, err = parseVisibility(text); err != nil {
			return err
		}
		if err := out.seen.shows(t.recent); err != nil {
			return err
		}
		if out.until, err = currentEnd(ctx, conn); err != nil {
			return err
		}
		changes, err = shape.read(ctx, conn, relation, keys, out.until)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read rows of table %s again: %w", relation.full(), err)
	}
	return out, changes, nil
}

// read returns a snapshot change for each key that has a row, and a delete for each that has none.
func (s *shape) read(ctx context.Context, conn *pgx.Conn, r *relation, keys [][]connectors.Value, at lsn) ([]connectors.Change, error) {
	var key []string
	for _, k := range s.table.Key {
		key = append(key, s.table.Columns[k].Name)
	}
	if len(key) == 0 {
		return nil, fmt.Errorf("it has no key: %w", connectors.ErrFatal)
	}
	var columns []string
	for _, a := range s.wire {
		columns = append(columns, a.name)
	}
	where := "(" + names(key) + ") IN (" + s.literals(key, keys) + ")"
	if r.spec.Where != "" {
		where += " AND (" + r.spec.Where + ")"
	}
	now := time.Now().UTC()
	origin := fmt.Appendf(nil, `"txId":null,"lsn":%d,"xmin":null`, uint64(at))
	var out rows
	there := map[string]bool{}
	err := eachRow(conn.PgConn().Exec(ctx, "SELECT "+names(columns)+" FROM "+r.own()+" WHERE "+where), func(values [][]byte) error {
		row := out.image(len(s.table.Columns))
		for i, text := range values {
			if s.index[i] < 0 {
				continue
			}
			row[s.index[i]] = connectors.NullValue()
			if text != nil {
				row[s.index[i]] = s.decoders[i].value(&out, text)
			}
		}
		there[connectors.KeyText(row, s.table.Key)] = true
		change := out.add(connectors.Snapshot, s.table, now)
		change.After, change.Origin, change.Position = row, origin, at.append(nil)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, values := range keys {
		before := out.image(len(s.table.Columns))
		if err := connectors.FillKey(s.table, before, values); err != nil {
			return nil, err
		}
		if !there[connectors.KeyText(before, s.table.Key)] {
			change := out.add(connectors.Delete, s.table, now)
			change.Before, change.Origin, change.Position = before, origin, at.append(nil)
		}
	}
	return out.changes, nil
}

// literals writes keys as SQL, for the right side of IN.
func (s *shape) literals(key []string, keys [][]connectors.Value) string {
	types := make([]string, len(key))
	for i, name := range key {
		types[i] = s.table.Columns[s.table.Column(name)].Type
	}
	var b strings.Builder
	for n, values := range keys {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for i, v := range values {
			if i > 0 {
				b.WriteString(", ")
			}
			text := v.AppendText(nil)
			if v.Kind() == connectors.Bytes {
				text = fmt.Appendf(nil, `\x%x`, v.Data())
			}
			b.WriteString("'" + quoteLiteral(string(text)) + "'::" + types[i])
		}
		b.WriteByte(')')
	}
	return b.String()
}
