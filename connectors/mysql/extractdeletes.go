package mysql

import (
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

// deletesDetect is the value of a source's deletes beside ignore.
const deletesDetect = "detect"

const (
	maxGone    = 100_000 // deletes of one table that one run hands over; the next run goes on
	fetchGroup = 500     // buckets that differ and are fetched together
	keyGroup   = 10_000  // keys that are stored together
)

// deletes finds the rows that are gone: their keys were handed over, and the table does not have them any more. Keys are
// compared by sums of their hashes, so that only the buckets that differ are read.
//
// A key is in the store before its row is handed over, and leaves it when its delete is durable. A nil *deletes does nothing.
type deletes struct {
	store   *keystore.Store
	most    int        // deletes of one table that one run hands over
	gone    []goneKeys // handed over, not known to be durable
	pending []goneKeys // to be handed over in this run
}

// goneKeys are keys of one table.
type goneKeys struct {
	keys  *keyColumns
	set   string
	texts []string
}

func openDeletes(ctx context.Context, config *SourceConfig, env connectors.Env) (*deletes, error) {
	if config.Deletes != deletesDetect {
		return nil, nil
	}
	store, err := keystore.Open(ctx, filepath.Join(env.Dir, "keys.db"))
	if err != nil {
		return nil, err
	}
	return &deletes{store: store, most: maxGone}, nil
}

func (d *deletes) close() error {
	if d == nil {
		return nil
	}
	return d.store.Close()
}

// forget drops what an aborted run found.
func (d *deletes) forget() {
	if d != nil {
		d.pending = nil
	}
}

// keepOnly drops the sets that no table has.
func (d *deletes) keepOnly(ctx context.Context, m *extractMark) error {
	if d == nil {
		return nil
	}
	var sets []string
	for _, t := range m.Tables {
		sets = append(sets, t.Keys)
	}
	return d.store.Drop(ctx, sets...)
}

// keyColumns are the columns that tell the rows of a table apart, and how their text is made in SQL.
type keyColumns struct {
	shape *shape
	wire  []int  // of the definition
	from  string // the table with its conditions, one row k for each key
}

// newKeyColumns returns nil when rows of the table cannot be told apart in records.
func newKeyColumns(s *shape, from, where string) *keyColumns {
	if len(s.table.Key) == 0 {
		return nil
	}
	k := &keyColumns{shape: s}
	conditions := []string{}
	for _, column := range s.table.Key {
		i := slices.Index(s.index, column)
		k.wire = append(k.wire, i)
		conditions = append(conditions, ident(s.def.Columns[i].Name)+" IS NOT NULL")
	}
	if where != "" {
		conditions = append(conditions, "("+where+")")
	}
	k.from = "(SELECT " + k.expr() + " AS k FROM " + from + " WHERE " + strings.Join(conditions, " AND ") + ") AS s"
	return k
}

// expr is the text of a key in SQL, as bytes: the only column's own, or each column's with its length before it. It is what a
// row of the table has on the wire.
func (k *keyColumns) expr() string {
	var parts []string
	for _, i := range k.wire {
		name := ident(k.shape.def.Columns[i].Name)
		switch k.shape.decoders[i].form {
		case formBytes, formBit:
		case formFloat:
			name = "CONVERT(" + name + " * 1e0 USING utf8mb4)"
		default:
			name = "CONVERT(" + name + " USING utf8mb4)"
		}
		text := "CAST(" + name + " AS BINARY)"
		if len(k.wire) > 1 {
			text = "LENGTH(" + text + "), ':', " + text
		}
		parts = append(parts, text)
	}
	if len(k.wire) == 1 {
		return parts[0]
	}
	return "CAST(CONCAT(" + strings.Join(parts, ", ") + ") AS BINARY)"
}

// of returns the key of a row as the query of a page brings it.
func (k *keyColumns) of(row [][]byte) (string, bool) {
	if len(k.wire) == 1 {
		v := row[k.wire[0]]
		return string(v), v != nil
	}
	var b strings.Builder
	for _, i := range k.wire {
		if row[i] == nil {
			return "", false
		}
		b.WriteString(strconv.Itoa(len(row[i])))
		b.WriteByte(':')
		b.Write(row[i])
	}
	return b.String(), true
}

// parts is the inverse of of.
func (k *keyColumns) parts(key string) ([]string, bool) {
	if len(k.wire) == 1 {
		return []string{key}, true
	}
	var out []string
	for range k.wire {
		digits, rest, ok := strings.Cut(key, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return nil, false
		}
		out, key = append(out, rest[:n]), rest[n:]
	}
	return out, key == ""
}

var errKeysLost = errors.New("the keys that were known are lost (the folder for spill files was emptied): rows that were deleted since the last look stay in the targets; a resync and a comparison with the source find them")

// begin makes sure that there is a set for the table's keys before rows are handed over.
func (d *deletes) begin(ctx context.Context, r *reader, k *keyColumns, m *extractedTable) error {
	if d == nil || k == nil {
		return nil
	}
	if m.Keys != "" {
		if has, err := d.store.Has(ctx, m.Keys); has || err != nil {
			return err
		}
	}
	lost := m.Keys != "" && !m.First
	err := d.fill(ctx, r, k, m, !m.First)
	if lost && err == nil {
		return errKeysLost
	}
	return err
}

// fill gives the table a new set, with the keys that it has now or with none.
func (d *deletes) fill(ctx context.Context, r *reader, k *keyColumns, m *extractedTable, all bool) error {
	m.Keys, m.Looked = keystore.NewSet(), time.Now().UnixMicro()
	if all {
		if err := eachKey(ctx, r, "SELECT k FROM "+k.from, func(keys []string) error { return d.store.Add(ctx, m.Keys, keys) }); err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
	}
	return d.store.Complete(ctx, m.Keys)
}

// eachKey reads keys in groups.
func eachKey(ctx context.Context, r *reader, query string, take func([]string) error) error {
	var keys []string
	err := r.each(ctx, query, func(row [][]byte) error {
		keys = append(keys, string(row[0]))
		if len(keys) < keyGroup {
			return nil
		}
		err := take(keys)
		keys = keys[:0]
		return err
	})
	if err != nil {
		return err
	}
	return take(keys)
}

const (
	bucketOf = "CAST(CONV(SUBSTR(h, 1, 4), 16, 10) AS UNSIGNED)"
	digestOf = "CAST(CONV(SUBSTR(h, 5, 15), 16, 10) AS UNSIGNED)"
)

// detect compares the keys and returns those that are gone, at most a few more than most.
func (d *deletes) detect(ctx context.Context, r *reader, k *keyColumns, set string) (gone []string, err error) {
	differing, err := d.compare(ctx, r, k, set)
	if err != nil {
		return nil, err
	}
	for group := range slices.Chunk(differing, fetchGroup) {
		there := map[string]struct{}{}
		var list []string
		for _, bucket := range group {
			list = append(list, strconv.Itoa(bucket))
		}
		query := "SELECT k FROM (SELECT k, MD5(k) AS h FROM " + k.from + ") AS x WHERE " + bucketOf + " IN (" + strings.Join(list, ", ") + ")"
		if err := eachKey(ctx, r, query, func(keys []string) error {
			for _, key := range keys {
				there[key] = struct{}{}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		for _, bucket := range group {
			known, err := d.store.Keys(ctx, set, bucket)
			if err != nil {
				return nil, err
			}
			for _, key := range known {
				if _, ok := there[key]; !ok {
					gone = append(gone, key)
				}
			}
		}
		if len(gone) > d.most {
			break
		}
	}
	return gone, nil
}

// compare returns the buckets that have keys in the store and whose sums differ.
func (d *deletes) compare(ctx context.Context, r *reader, k *keyColumns, set string) ([]int, error) {
	known, err := d.store.Sums(ctx, set)
	if err != nil {
		return nil, err
	}
	query := "SELECT b, COUNT(*), CAST(SUM(d) % 18446744073709551616 AS UNSIGNED) FROM (SELECT " + bucketOf + " AS b, " + digestOf +
		" AS d FROM (SELECT MD5(k) AS h FROM " + k.from + ") AS x) AS y GROUP BY b"
	err = r.each(ctx, query, func(row [][]byte) error {
		var numbers [3]uint64
		for i, v := range row {
			n, ok := parseUint(v)
			if !ok {
				return errors.New("a sum is no number")
			}
			numbers[i] = n
		}
		if b := int(numbers[0]); known[b] == (keystore.Sum{Count: int64(numbers[1]), Sum: numbers[2]}) {
			delete(known, b)
		}
		return nil
	})
	var out []int
	for b := range known {
		out = append(out, b)
	}
	slices.Sort(out)
	return out, err
}

// look compares the keys of a table when it is time, and notes those that are gone.
func (d *deletes) look(ctx context.Context, r *reader, k *keyColumns, m *extractedTable, every connectors.Timing) error {
	if d == nil || k == nil || m.First || m.Keys == "" || !connectors.Due(every, time.UnixMicro(m.Looked), time.Now()) {
		return nil
	}
	gone, err := d.detect(ctx, r, k, m.Keys)
	if err != nil {
		return fmt.Errorf("compare keys: %w", err)
	}
	if len(gone) <= d.most {
		m.Looked = time.Now().UnixMicro()
	}
	if len(gone) > 0 {
		d.pending = append(d.pending, goneKeys{k, m.Keys, gone})
	}
	return nil
}

// emit adds deletes to a batch until it is full. It reports whether it added any.
func (d *deletes) emit(out *rows, limits connectors.Limits) (any bool) {
	if d == nil {
		return false
	}
	at := time.Now().UTC()
	for len(d.pending) > 0 {
		p := &d.pending[0]
		for i, key := range p.texts {
			if out.full(limits) {
				d.gone = append(d.gone, goneKeys{p.keys, p.set, p.texts[:i]})
				p.texts = p.texts[i:]
				return true
			}
			any = p.keys.delete(out, key, at) || any
		}
		d.gone = append(d.gone, *p)
		d.pending = d.pending[1:]
	}
	return any
}

// delete adds the delete of a key.
func (k *keyColumns) delete(out *rows, key string, at time.Time) bool {
	parts, ok := k.parts(key)
	if !ok {
		return false
	}
	before := out.image(len(k.shape.table.Columns))
	for j, i := range k.wire {
		before[k.shape.index[i]] = k.shape.decoders[i].text(out, []byte(parts[j]))
	}
	c := out.add(connectors.Delete, k.shape.table, at)
	c.Before, c.Origin = before, extractOrigin
	return true
}

// add notes keys of rows that are about to be handed over.
func (d *deletes) add(ctx context.Context, set string, keys []string) error {
	if d == nil || len(keys) == 0 {
		return nil
	}
	var back map[string]bool
	for i := range d.gone { // a key that is back must stay
		if d.gone[i].set != set {
			continue
		}
		if back == nil {
			back = map[string]bool{}
			for _, key := range keys {
				back[key] = true
			}
		}
		d.gone[i].texts = slices.DeleteFunc(slices.Clone(d.gone[i].texts), func(key string) bool { return back[key] })
	}
	return d.store.Add(ctx, set, keys)
}

// settle takes keys out whose deletes are durable.
func (d *deletes) settle(ctx context.Context) error {
	if d == nil {
		return nil
	}
	for len(d.gone) > 0 {
		if err := d.store.Remove(ctx, d.gone[0].set, d.gone[0].texts); err != nil {
			return err
		}
		d.gone = d.gone[1:]
	}
	return nil
}
