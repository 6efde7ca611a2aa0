package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/keystore"
)

// deletesDetect is the value of deletes beside ignore.
const deletesDetect = "detect"

const (
	maxGone    = 100_000 // deletes of one table that one run hands over; the next run goes on
	fetchGroup = 500     // buckets that differ and are fetched together
)

// deletes finds the rows that are gone: their keys were handed over, and the table does not have them any more. Keys are
// compared by sums of their hashes, so that only the buckets that differ are read.
//
// A key is in the store before its row is handed over, and leaves it when its delete is durable.
type deletes struct {
	store   *keystore.Store
	most    int        // deletes of one table that one run hands over
	gone    []goneKeys // handed over, not known to be durable
	pending []goneKeys // to be handed over in this run
}

// goneKeys are keys of one table.
type goneKeys struct {
	table *extractTable
	set   string
	keys  []string
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

func (d *deletes) close() error {
	if d == nil {
		return nil
	}
	return d.store.Close()
}

// keyed reports whether rows of the table can be told apart, and notes where their keys are on the wire.
func (t *extractTable) keyed() bool {
	if len(t.keyWire) == 0 && len(t.shape.table.Key) > 0 {
		for _, column := range t.shape.table.Key {
			t.keyWire = append(t.keyWire, slices.Index(t.shape.index, column))
		}
	}
	return len(t.keyWire) > 0
}

// appendKey writes the key of a row as one text: the only column's own, or each column's with its length before it.
func (t *extractTable) keyOf(values [][]byte) (string, bool) {
	if len(t.keyWire) == 1 {
		v := values[t.keyWire[0]]
		return string(v), v != nil
	}
	var b strings.Builder
	for _, i := range t.keyWire {
		if values[i] == nil {
			return "", false
		}
		b.WriteString(strconv.Itoa(len(values[i])))
		b.WriteByte(':')
		b.Write(values[i])
	}
	return b.String(), true
}

// keyParts is the inverse of keyOf.
func (t *extractTable) keyParts(key string) ([]string, bool) {
	if len(t.keyWire) == 1 {
		return []string{key}, true
	}
	var out []string
	for range t.keyWire {
		digits, rest, ok := strings.Cut(key, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return nil, false
		}
		out, key = append(out, rest[:n]), rest[n:]
	}
	return out, key == ""
}

// keyExpr is keyOf in SQL.
func (t *extractTable) keyExpr() string {
	var parts []string
	for _, i := range t.keyWire {
		a := t.shape.wire[i]
		text := "format('%s', " + ident(a.name) + ")" // the type's output, which a cast to text is not for all
		switch a.typ.oid {
		case 20, 21, 23, 25, 1043, 2950:
			text = ident(a.name) + "::text"
		}
		if len(t.keyWire) > 1 {
			text = "octet_length(convert_to(" + text + ", 'UTF8')) || ':' || " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " || ")
}

// from is the table with its conditions, one row for each key.
func (t *extractTable) keysFrom() string {
	out := "(SELECT " + t.keyExpr() + " AS k FROM " + t.from() + " WHERE true"
	for _, i := range t.keyWire {
		out += " AND " + ident(t.shape.wire[i].name) + " IS NOT NULL"
	}
	if t.relation.spec.Where != "" {
		out += " AND (" + t.relation.spec.Where + ")"
	}
	return out + ") s"
}

const (
	hashOfKey = "md5(convert_to(k, 'UTF8'))"
	bucketOf  = "('x' || substr(h, 1, 4))::bit(16)::int"
)

// begin makes sure that there is a set for the table's keys before rows are handed over.
func (d *deletes) begin(ctx context.Context, r *extractRun, t *extractTable) error {
	if d == nil || !t.keyed() {
		return nil
	}
	m := t.mark
	if m.Keys != "" {
		if has, err := d.store.Has(ctx, m.Keys); has || err != nil {
			return err
		}
	}
	lost := m.Keys != "" && !m.First
	m.Keys, m.Looked = keystore.NewSet(), r.lookout.clock.UnixMicro()
	if !m.First {
		if err := r.eachKey(ctx, "SELECT k FROM "+t.keysFrom(), func(keys []string) error { return d.store.Add(ctx, m.Keys, keys) }); err != nil {
			return fmt.Errorf("read keys of table %s: %w", t.relation.full(), err)
		}
	}
	if lost {
		return errors.Join(d.store.Complete(ctx, m.Keys), errKeysLost)
	}
	return d.store.Complete(ctx, m.Keys)
}

var errKeysLost = errors.New("the keys that were known are lost (the folder for spill files was emptied): rows that were deleted since the last look stay in the targets; a resync and a comparison with the source find them")

// eachKey reads keys in groups.
func (r *extractRun) eachKey(ctx context.Context, query string, take func([]string) error) error {
	result := r.conn.PgConn().Exec(ctx, query)
	var keys []string
	var failed error
	for result.NextResult() {
		for rows := result.ResultReader(); failed == nil && rows.NextRow(); {
			keys = append(keys, string(rows.Values()[0]))
			if len(keys) == 10_000 {
				failed, keys = take(keys), keys[:0]
			}
		}
	}
	if err := result.Close(); err != nil || failed != nil {
		return cmp.Or(failed, err)
	}
	return take(keys)
}

// detect compares the keys when it is time, and notes those that are gone.
func (d *deletes) detect(ctx context.Context, r *extractRun, t *extractTable, every connectors.Timing) error {
	m := t.mark
	if d == nil || !t.keyed() || m.First || m.Keys == "" || !connectors.Due(every, time.UnixMicro(m.Looked), r.lookout.clock) {
		return nil
	}
	differing, err := d.compare(ctx, r, t)
	if err != nil {
		return fmt.Errorf("compare keys of table %s: %w", t.relation.full(), err)
	}
	gone := goneKeys{table: t, set: m.Keys}
	for group := range slices.Chunk(differing, fetchGroup) {
		there := map[string]struct{}{}
		var list []string
		for _, bucket := range group {
			list = append(list, strconv.Itoa(bucket))
		}
		query := "SELECT k FROM (SELECT k, " + hashOfKey + " AS h FROM " + t.keysFrom() + ") x WHERE " + bucketOf + " = ANY ('{" + strings.Join(list, ",") + "}')"
		if err := r.eachKey(ctx, query, func(keys []string) error {
			for _, key := range keys {
				there[key] = struct{}{}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("compare keys of table %s: %w", t.relation.full(), err)
		}
		for _, bucket := range group {
			known, err := d.store.Keys(ctx, m.Keys, bucket)
			if err != nil {
				return err
			}
			for _, key := range known {
				if _, ok := there[key]; !ok {
					gone.keys = append(gone.keys, key)
				}
			}
		}
		if len(gone.keys) > d.most {
			break
		}
	}
	if len(gone.keys) <= d.most {
		m.Looked = r.lookout.clock.UnixMicro()
	}
	if len(gone.keys) > 0 {
		d.pending = append(d.pending, gone)
	}
	return nil
}

// compare returns the buckets that have keys in the store and whose sums differ.
func (d *deletes) compare(ctx context.Context, r *extractRun, t *extractTable) ([]int, error) {
	known, err := d.store.Sums(ctx, t.mark.Keys)
	if err != nil {
		return nil, err
	}
	query := "SELECT b, count(*)::text, (sum(('x' || substr(h, 5, 15))::bit(60)::int8) % 18446744073709551616)::text FROM (SELECT h, " + bucketOf +
		" AS b FROM (SELECT " + hashOfKey + " AS h FROM " + t.keysFrom() + ") x) y GROUP BY b"
	err = eachRow(r.conn.PgConn().Exec(ctx, query), func(values [][]byte) error {
		var numbers [3]uint64
		for i, v := range values {
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

func eachRow(result *pgconn.MultiResultReader, take func([][]byte) error) error {
	var failed error
	for result.NextResult() {
		for rows := result.ResultReader(); failed == nil && rows.NextRow(); {
			failed = take(rows.Values())
		}
	}
	if err := result.Close(); err != nil {
		return err
	}
	return failed
}

// emit adds deletes to a batch until it is full, and reports whether there are more.
func (d *deletes) emit(out *rows, limits connectors.Limits, at time.Time, origin []byte) (more bool) {
	if d == nil {
		return false
	}
	for len(d.pending) > 0 {
		p := &d.pending[0]
		t := p.table
		for i, key := range p.keys {
			if out.full(limits) {
				d.gone = append(d.gone, goneKeys{t, p.set, p.keys[:i]})
				p.keys = p.keys[i:]
				return true
			}
			parts, ok := t.keyParts(key)
			if !ok {
				continue
			}
			before := out.image(len(t.shape.table.Columns))
			for j, wire := range t.keyWire {
				before[t.shape.index[wire]] = t.shape.decoders[wire].value(out, []byte(parts[j]))
			}
			change := out.add(connectors.Delete, t.shape.table, at)
			change.Before, change.Origin, change.Position = before, origin, out.keep([]byte(key))
		}
		d.gone = append(d.gone, *p)
		d.pending = d.pending[1:]
	}
	return false
}

// add notes keys of rows that are about to be handed over.
func (d *deletes) add(ctx context.Context, t *extractTable, keys []string) error {
	if d == nil || len(keys) == 0 {
		return nil
	}
	for i := range d.gone { // a key that is back must stay
		if d.gone[i].set == t.mark.Keys {
			d.gone[i].keys = slices.DeleteFunc(slices.Clone(d.gone[i].keys), func(key string) bool { return slices.Contains(keys, key) })
		}
	}
	return d.store.Add(ctx, t.mark.Keys, keys)
}

// settle takes keys out whose deletes are durable.
func (d *deletes) settle(ctx context.Context) error {
	if d == nil {
		return nil
	}
	for len(d.gone) > 0 {
		if err := d.store.Remove(ctx, d.gone[0].set, d.gone[0].keys); err != nil {
			return err
		}
		d.gone = d.gone[1:]
	}
	return nil
}
