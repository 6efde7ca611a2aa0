package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// A repair reads single rows anew at the end of a transaction of the stream, as a sync reads whole tables (see sync.go): the
// rows may be newer than the place where the stream goes on, and every row image is whole, so what comes after them leads
// to the same rows again.

// repairGroup is how many keys are read in one go.
const repairGroup = 500

// repair asks for rows of one table.
type repair struct {
	table tableName
	keys  [][]connectors.Value
}

// Repair implements connectors.Repairer.
func (s *Source) Repair(_ context.Context, table string, keys [][]connectors.Value) error {
	schema, name, ok := strings.Cut(table, ".")
	n := tableName{schema, name}
	if !ok || s.config.spec(n) == nil || s.config.Snapshot == snapshotOnly {
		return fmt.Errorf("repair table %q: source %q does not read it", table, s.env.Name)
	}
	for group := range slices.Chunk(keys, repairGroup) {
		r := repair{table: n}
		for _, key := range group {
			r.keys = append(r.keys, connectors.CloneRow(key))
		}
		s.requests.addRepair(r)
	}
	return nil
}

func (r *requests) addRepair(one repair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repairs = append(r.repairs, one)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *requests) takeRepair() (repair, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.repairs) == 0 {
		return repair{}, false
	}
	one := r.repairs[0]
	r.repairs = r.repairs[1:]
	return one, true
}

// reread hands over the rows of a repair, between two transactions of the stream, which then goes on where it was.
func (s *Source) reread(ctx context.Context, r repair) (connectors.Batch, error) {
	if err := s.pauseStream(); err != nil {
		return connectors.Batch{}, err
	}
	batch := connectors.Batch{Position: s.pos.encode()}
	known := s.schemas.tables[r.table]
	if known == nil || known.failed || len(known.shape.table.Key) == 0 {
		return batch, nil // a table that is to be read as a whole needs no repair
	}
	workers, err := s.moments(ctx, 1)
	if err != nil {
		return batch, err
	}
	defer closeAll(workers)
	if batch.Changes, err = s.rereadRows(ctx, workers[0], known.shape, r); err != nil {
		return batch, fmt.Errorf("read rows of table %s again: %w", r.table.full(), settle(plain(err)))
	}
	return batch, nil
}

func (s *Source) rereadRows(ctx context.Context, m *moment, shape *shape, r repair) ([]connectors.Change, error) {
	var key []string
	for _, k := range shape.table.Key {
		key = append(key, shape.table.Columns[k].Name)
	}
	t := &snapshotTable{name: r.table, shape: shape}
	from := (&compared{name: r.table, shape: shape}).from(connectors.Comparison{Key: key, Keys: r.keys})
	stamp, now := stampOf(m), time.Now().UTC()
	var out rows
	there := map[string]bool{}
	err := m.r.each(ctx, "SELECT "+t.columnList()+" FROM "+from, func(row [][]byte) error {
		image := out.image(len(shape.table.Columns))
		for i, text := range row {
			switch at := shape.index[i]; {
			case at < 0:
			case text == nil:
				image[at] = connectors.NullValue()
			default:
				image[at] = shape.decoders[i].text(&out, text)
			}
		}
		there[connectors.KeyText(image, shape.table.Key)] = true
		c := out.add(connectors.Snapshot, shape.table, now)
		c.After, c.Origin, c.Position = image, stamp.origin, stamp.position
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, values := range r.keys {
		before := out.image(len(shape.table.Columns))
		if err := connectors.FillKey(shape.table, before, values); err != nil {
			return nil, err
		}
		if !there[connectors.KeyText(before, shape.table.Key)] {
			c := out.add(connectors.Delete, shape.table, now)
			c.Before, c.Origin, c.Position = before, stamp.origin, stamp.position
		}
	}
	return out.changes, nil
}
