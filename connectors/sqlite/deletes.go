package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/keystore"
)

// Deletes of a source says whether it looks for rows that are gone.
const (
	deletesIgnore = "ignore"
	deletesDetect = "detect"
)

// maxGone bounds the deletes of one table that one look hands over; the next one goes on.
const maxGone = 100_000

// deletes compares the keys that were handed over with those that the table has. A key is in the store before its row is
// handed over, and leaves it when its delete is durable.
type deletes struct {
	store   *keystore.Store
	pending []goneKeys          // to be handed over
	gone    []goneKeys          // handed over, not known to be durable
	given   connectors.Position // the last
}

type goneKeys struct {
	table *table
	set   string
	keys  []string
}

// openDeletes returns nil where deletes are not looked for.
func openDeletes(ctx context.Context, c *SourceConfig, env connectors.Env) (*deletes, error) {
	if c.Deletes != deletesDetect {
		return nil, nil
	}
	store, err := keystore.Open(ctx, filepath.Join(env.Dir, "keys.db"))
	if err != nil {
		return nil, err
	}
	return &deletes{store: store}, nil
}

func (d *deletes) close() error {
	if d == nil {
		return nil
	}
	return d.store.Close()
}

// keyOf writes the cells of a key as one text, each with its length before it.
func keyOf(cells []any, key []int) string {
	var b strings.Builder
	var cell []byte
	for _, i := range key {
		cell = appendCell(cell[:0], cells[i])
		b.WriteString(strconv.Itoa(len(cell)))
		b.WriteByte(':')
		b.Write(cell)
	}
	return b.String()
}

// keyCells is the inverse of keyOf.
func keyCells(key string) ([]any, error) {
	var out []any
	for key != "" {
		digits, rest, ok := strings.Cut(key, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return nil, errCell
		}
		cell, err := parseCell(rest[:n])
		if err != nil {
			return nil, err
		}
		out, key = append(out, cell), rest[n:]
	}
	return out, nil
}

// beginDeletes makes sure that there is a set for the table's keys before rows are handed over.
func (s *source) beginDeletes(ctx context.Context, t *table) error {
	d := s.deletes
	if d == nil || len(t.Key) == 0 {
		return nil
	}
	if t.place.Keys != "" {
		if has, err := d.store.Has(ctx, t.place.Keys); has || err != nil {
			return err
		}
	}
	lost := t.place.Keys != "" && !t.place.Snapshot
	t.place.Keys, t.place.Looked = keystore.NewSet(), time.Now().UnixMicro()
	if !t.place.Snapshot {
		var keys []string
		var failed error
		err := eachKey(ctx, s.db, t, func(key string) {
			if keys = append(keys, key); len(keys) == 10_000 {
				failed, keys = errors.Join(failed, d.store.Add(ctx, t.place.Keys, keys)), keys[:0]
			}
		})
		if err = errors.Join(err, failed, d.store.Add(ctx, t.place.Keys, keys)); err != nil {
			return err
		}
	}
	if lost {
		const reason = "the keys that were known are lost (the folder for spill files was emptied): rows that were deleted since the last look stay in the targets"
		s.env.Logger.Error("deletes are missing", "source", s.env.Name, "table", t.FullName(), "reason", reason)
		s.env.Report(connectors.Report{Table: t.FullName(), Reason: reason})
	}
	return d.store.Complete(ctx, t.place.Keys)
}

// eachKey reads the keys of a table.
func eachKey(ctx context.Context, q querier, t *table, take func(string)) error {
	var columns []string
	for _, k := range t.Key {
		columns = append(columns, "+"+t.columns[k])
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM " + t.from
	if t.where != "" {
		query += " WHERE (" + t.where + ")"
	}
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("read keys of %s: %w", t.FullName(), err)
	}
	defer rows.Close()
	cells, targets, order := make([]any, len(columns)), make([]any, len(columns)), make([]int, len(columns))
	for i := range cells {
		targets[i], order[i] = &cells[i], i
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("read keys of %s: %w", t.FullName(), err)
		}
		take(keyOf(cells, order))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read keys of %s: %w", t.FullName(), err)
	}
	return nil
}

// lookDue reports whether it is time to compare the keys of a table. Nothing is compared before the deletes of the last time
// are durable. Where nothing was written since, there is nothing to find, and the due time is over.
func (s *source) lookDue(t *table) bool {
	if s.deletes == nil || t.failed || t.place.Snapshot || t.place.Keys == "" || len(s.deletes.gone) > 0 {
		return false
	}
	now := time.Now()
	if !connectors.Due(s.config.DeletesEvery, time.UnixMicro(t.place.Looked), now) {
		return false
	}
	if t.looked == s.data {
		t.place.Looked = now.UnixMicro()
		return false
	}
	return true
}

// detect compares the keys of a table. Only buckets whose sums differ are looked at key by key.
func (s *source) detect(ctx context.Context, t *table) error {
	looked := s.data
	known, err := s.deletes.store.Sums(ctx, t.place.Keys)
	if err != nil {
		return err
	}
	there := map[int]keystore.Sum{}
	if err := eachKey(ctx, s.db, t, func(key string) {
		bucket, sum := keystore.Digest(key)
		was := there[bucket]
		there[bucket] = keystore.Sum{Count: was.Count + 1, Sum: was.Sum + sum}
	}); err != nil {
		return err
	}
	differing := map[int]map[string]struct{}{}
	for bucket, sum := range known {
		if there[bucket] != sum {
			differing[bucket] = nil
		}
	}
	if len(differing) > 0 {
		if err := eachKey(ctx, s.db, t, func(key string) {
			bucket, _ := keystore.Digest(key)
			set, differs := differing[bucket]
			if differs && set == nil {
				set = map[string]struct{}{}
				differing[bucket] = set
			}
			if differs {
				set[key] = struct{}{}
			}
		}); err != nil {
			return err
		}
	}
	gone := goneKeys{table: t, set: t.place.Keys}
	for bucket, set := range differing {
		keys, err := s.deletes.store.Keys(ctx, t.place.Keys, bucket)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if _, ok := set[key]; !ok {
				gone.keys = append(gone.keys, key)
			}
		}
		if len(gone.keys) > maxGone {
			break
		}
	}
	if len(gone.keys) <= maxGone { // else the next look comes at once
		t.place.Looked, t.looked = time.Now().UnixMicro(), looked
	}
	if len(gone.keys) > 0 {
		slices.Sort(gone.keys)
		s.deletes.pending = append(s.deletes.pending, gone)
	}
	return nil
}

// handOver returns a batch of deletes.
func (s *source) handOver() (connectors.Batch, error) {
	d, r := s.deletes, &s.reader
	p := &d.pending[0]
	t := p.table
	r.reset(t, time.Now())
	n := min(len(p.keys), r.limits.BatchRows)
	for _, key := range p.keys[:n] {
		cells, err := keyCells(key)
		if err != nil || len(cells) != len(t.Key) {
			continue // the key is another one now
		}
		start := len(r.values)
		r.values = append(r.values, make([]connectors.Value, len(t.Columns))...)
		before := r.values[start:len(r.values):len(r.values)]
		for i, k := range t.Key {
			before[k] = r.arena.value(t.Columns[k].Kind, cells[i])
		}
		at := len(r.arena.bytes)
		r.arena.bytes = append(r.arena.bytes, key...)
		r.changes = append(r.changes, connectors.Change{Op: connectors.Delete, Table: t.Table, Before: before, Time: r.now,
			Position: connectors.Position(r.arena.bytes[at:len(r.arena.bytes):len(r.arena.bytes)])})
	}
	d.gone = append(d.gone, goneKeys{t, p.set, p.keys[:n]})
	if p.keys = p.keys[n:]; len(p.keys) == 0 {
		d.pending = d.pending[1:]
	}
	position, err := formatPosition(s.places)
	return connectors.Batch{Changes: r.changes, Position: position}, err
}

// addKeys notes the keys of rows that are about to be handed over.
func (s *source) addKeys(ctx context.Context, t *table) error {
	keys := s.reader.keys
	if s.deletes == nil || len(keys) == 0 {
		return nil
	}
	for i := range s.deletes.gone { // a key that is back must stay
		if g := &s.deletes.gone[i]; g.set == t.place.Keys {
			g.keys = slices.DeleteFunc(slices.Clone(g.keys), func(key string) bool { return slices.Contains(keys, key) })
		}
	}
	return s.deletes.store.Add(ctx, t.place.Keys, keys)
}

// settleDeletes takes keys out whose deletes are durable.
func (s *source) settleDeletes(ctx context.Context) error {
	d := s.deletes
	if d == nil || len(d.gone) == 0 {
		return nil
	}
	s.mu.Lock()
	durable := bytes.Equal(d.given, s.acked)
	s.mu.Unlock()
	for durable && len(d.gone) > 0 {
		if err := d.store.Remove(ctx, d.gone[0].set, d.gone[0].keys); err != nil {
			return err
		}
		d.gone = d.gone[1:]
	}
	return nil
}
