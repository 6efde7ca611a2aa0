// Package reconcile compares a table of a source with the table of a sink that follows it, while both change.
//
// It promises to name every key whose rows differ for longer than the line needs to bring a change, and none that is only
// on its way. Rows are hashed in parts of their keys, inside the databases where both hash alike, so that only the parts
// that differ are read. A key that differs is then looked at again and again: it counts once the source's row has stayed
// the same while everything that the source had before was written to the sink, and the sink still has another row.
//
// It sees rows as they are at the moment of reading. A difference that comes and goes between two looks is not seen. The
// pipeline calls Compare and knows how to wait for the sink.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Limits of one comparison.
const (
	rangeRows    = 1_000_000 // rows of an integer key's range, whose sums are taken in one query
	maxRanges    = 100_000
	bucketGroup  = 256    // buckets that differ and are read together
	keyGroup     = 500    // keys that are looked up together
	maxDifferent = 10_000 // keys of one table that are followed
	maxLooks     = 8      // at a key whose row in the source goes on changing
	sameLooks    = 2      // in a row with the same row in the source that make a difference
)

// Options says what to compare and how to wait. Source, Sink and Settle are required.
type Options struct {
	Source, Sink connectors.Comparer

	// Settle returns once everything that the source had when it was called has been written to the sink.
	Settle func(ctx context.Context) error

	Progress func(Progress) // may be nil; called by the goroutine of Compare
}

// Progress is how far a comparison is.
type Progress struct {
	Table   string `json:"table"`
	Step    string `json:"step"` // what is going on, in words
	Part    int    `json:"part,omitempty"`
	Parts   int    `json:"parts,omitempty"`
	Pending int    `json:"pending,omitempty"` // keys that differ so far
}

// What can be wrong with a key.
const (
	Missing = "missing" // the sink has no row
	Extra   = "extra"   // the source has no row
	Differs = "differs" // the rows are not equal
)

// Difference is one key whose rows differ.
type Difference struct {
	Key     string             `json:"key"` // as the record's key, JSON
	Kind    string             `json:"kind"`
	Columns []string           `json:"columns,omitempty"` // that differ
	Values  []connectors.Value `json:"-"`                 // of the key
}

// Result is what a comparison of one table found.
type Result struct {
	Table     string       `json:"table"`
	Target    string       `json:"target,omitempty"`
	Rows      int64        `json:"rows"` // of the source
	Different []Difference `json:"different,omitempty"`
	More      bool         `json:"more,omitempty"`      // there are others, which were not followed
	Unsettled int          `json:"unsettled,omitempty"` // keys whose row in the source changed at every look
	Left      []string     `json:"left_out,omitempty"`  // columns that the target does not have
	Method    string       `json:"method"`              // how rows were hashed
	Problem   string       `json:"problem,omitempty"`   // why the table could not be compared
	Seconds   float64      `json:"seconds"`

	// VerifiedThrough: what the source had committed by then is in the sink, but for the keys above. Zero when keys were
	// unsettled or not followed.
	VerifiedThrough time.Time `json:"verified_through,omitzero"`
}

// Equal reports that nothing differs.
func (r Result) Equal() bool { return len(r.Different) == 0 && !r.More && r.Problem == "" }

// errNotComparable is a table that cannot be compared; the others can.
type errNotComparable struct{ problem string }

func (e errNotComparable) Error() string { return e.problem }

// comparison is the work on one table.
type comparison struct {
	o       Options
	name    string
	source  side
	sink    side
	same    bool     // both ends have one dialect, so that equal values are equal text
	hashed  bool     // by the databases
	key     []string // of the source
	columns []string // to be compared, the key's first
	kinds   []connectors.Kind
	result  Result
	pending map[string]*suspect
	seed    maphash.Seed
}

// side is one end.
type side struct {
	comparer connectors.Comparer
	table    *connectors.Table
}

// Compare compares one table, named as the source names it.
func Compare(ctx context.Context, o Options, table string) (Result, error) {
	began := time.Now()
	c := &comparison{o: o, name: table, result: Result{Table: table}, pending: map[string]*suspect{}, seed: maphash.MakeSeed()}
	err := c.run(ctx)
	c.result.Seconds = time.Since(began).Seconds()
	var not errNotComparable
	if errors.As(err, &not) {
		c.result.Problem, err = not.problem, nil
	}
	if err != nil {
		return c.result, fmt.Errorf("compare table %s: %w", table, err)
	}
	if c.result.Unsettled == 0 && !c.result.More && c.result.Problem == "" {
		c.result.VerifiedThrough = began.UTC()
	}
	return c.result, nil
}

// Recheck looks again at keys that differed, and returns those that still do.
func Recheck(ctx context.Context, o Options, table string, list []Difference) ([]Difference, error) {
	c := &comparison{o: o, name: table, result: Result{Table: table}, pending: map[string]*suspect{}, seed: maphash.MakeSeed()}
	if err := c.describe(ctx); err != nil {
		return nil, fmt.Errorf("compare table %s: %w", table, err)
	}
	h := newHasher(c)
	for _, d := range list {
		c.pending[string(h.key(d.Values))] = &suspect{key: d.Values}
	}
	if err := c.settle(ctx); err != nil {
		return nil, fmt.Errorf("compare table %s: %w", table, err)
	}
	return c.result.Different, nil
}

func (c *comparison) run(ctx context.Context) error {
	if err := c.describe(ctx); err != nil {
		return err
	}
	parts, err := c.parts(ctx)
	if err != nil {
		return err
	}
	for i, q := range parts {
		c.progress(Progress{Step: "hashing rows", Part: i + 1, Parts: len(parts)})
		if err := c.part(ctx, q); err != nil {
			return err
		}
		if c.result.More {
			break
		}
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	slices.SortFunc(c.result.Different, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), strings.Compare(a.Key, b.Key))
	})
	return nil
}

func (c *comparison) progress(p Progress) {
	if c.o.Progress != nil {
		p.Table, p.Pending = c.name, len(c.pending)
		c.o.Progress(p)
	}
}

// describe finds the table at both ends, and the columns that both have.
func (c *comparison) describe(ctx context.Context) error {
	schema, name, found := strings.Cut(c.name, ".")
	if !found {
		schema, name = "", c.name
	}
	c.source, c.sink = side{comparer: c.o.Source}, side{comparer: c.o.Sink}
	var err error
	if c.source.table, err = c.o.Source.Describe(ctx, &connectors.Table{Schema: schema, Name: name}); err != nil {
		return err
	}
	if c.source.table == nil {
		return errNotComparable{"the source has no such table, or does not read it"}
	}
	if c.sink.table, err = c.o.Sink.Describe(ctx, c.source.table); err != nil {
		return err
	}
	if c.sink.table == nil {
		return errNotComparable{"the sink has no table for it yet"}
	}
	s, t := c.source.table, c.sink.table
	c.result.Target, c.same = t.FullName(), s.Dialect == t.Dialect
	if len(s.Key) == 0 {
		return errNotComparable{"it has no key by which rows could be told apart"}
	}
	for _, k := range s.Key {
		if t.Column(s.Columns[k].Name) < 0 {
			return errNotComparable{fmt.Sprintf("the target %s lacks the key column %s", t.FullName(), s.Columns[k].Name)}
		}
		c.key = append(c.key, s.Columns[k].Name)
		c.kinds = append(c.kinds, s.Columns[k].Kind)
	}
	c.columns = slices.Clone(c.key)
	for _, column := range s.Columns {
		switch {
		case slices.Contains(c.key, column.Name):
		case t.Column(column.Name) < 0:
			c.result.Left = append(c.result.Left, column.Name)
		default:
			c.columns, c.kinds = append(c.columns, column.Name), append(c.kinds, column.Kind)
		}
	}
	method := c.o.Source.Method()
	c.hashed = c.same && method != "" && method == c.o.Sink.Method() && c.alike()
	if c.result.Method = "rows read and hashed here"; c.hashed {
		c.result.Method = "hashed in both databases"
	}
	return nil
}

// alike reports that every column has one type at both ends, so that the databases' own texts can be compared.
func (c *comparison) alike() bool {
	s, t := c.source.table, c.sink.table
	return !slices.ContainsFunc(c.columns, func(name string) bool {
		return s.Columns[s.Column(name)].Kind != t.Columns[t.Column(name)].Kind
	})
}

// parts cuts the table by an integer key, so that no query takes long: one that does holds back the databases' own
// cleaning up.
func (c *comparison) parts(ctx context.Context) ([]connectors.Comparison, error) {
	s, t := c.source.table, c.sink.table
	whole := []connectors.Comparison{{Key: c.key, Columns: c.columns}}
	if s.Columns[s.Key[0]].Kind != connectors.Int || t.Columns[t.Column(c.key[0])].Kind != connectors.Int {
		return whole, nil
	}
	low, high, rows, ok, err := c.o.Source.Bounds(ctx, s)
	if err != nil {
		return nil, err
	}
	if t.Columns[t.Column(c.key[0])].Name == c.key[0] && slices.Equal(t.Key[:min(1, len(t.Key))], []int{t.Column(c.key[0])}) {
		low2, high2, rows2, ok2, err := c.o.Sink.Bounds(ctx, t)
		switch {
		case err != nil:
			return nil, err
		case ok && ok2:
			low, high, rows = min(low, low2), max(high, high2), max(rows, rows2)
		case ok2:
			low, high, rows, ok = low2, high2, rows2, true
		}
	} else {
		ok = false
	}
	count := min(uint64(max(rows, 0))/rangeRows+1, maxRanges, uint64(high-low)+1)
	if !ok || count <= 1 {
		return whole, nil
	}
	// What is inserted below or above the ends meanwhile belongs to the first and the last part.
	var out []connectors.Comparison
	step := uint64(high-low)/count + 1
	for i := range count {
		q := connectors.Comparison{Key: c.key, Columns: c.columns, Ranged: true, Low: low + int64(i*step), High: low + int64((i+1)*step) - 1}
		if i == 0 {
			q.Low = minKey
		}
		if i == count-1 || q.High >= high {
			q.High = maxKey
			return append(out, q), nil
		}
		out = append(out, q)
	}
	return out, nil
}

// The ends of a key of 64 bits.
const (
	minKey = -1 << 63
	maxKey = 1<<63 - 1
)

// part compares the sums of one range, and reads the buckets that differ.
func (c *comparison) part(ctx context.Context, q connectors.Comparison) error {
	var sums [2]connectors.Sums
	if err := c.both(ctx, func(ctx context.Context, i int, s side) (err error) {
		sums[i], err = c.sums(ctx, s, q)
		return err
	}); err != nil {
		return err
	}
	var differing []int
	for b := range connectors.Buckets {
		c.result.Rows += sums[0][b].Rows
		if sums[0][b] != sums[1][b] {
			differing = append(differing, b)
		}
	}
	group := bucketGroup
	if !c.hashed {
		group = connectors.Buckets // each look reads all rows
	}
	for buckets := range slices.Chunk(differing, group) {
		if c.result.More {
			return nil
		}
		if err := c.buckets(ctx, q, buckets); err != nil {
			return err
		}
	}
	return nil
}

// both runs a step at both ends at the same time.
func (c *comparison) both(ctx context.Context, step func(ctx context.Context, i int, s side) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- step(ctx, 1, c.sink) }()
	err := step(ctx, 0, c.source)
	if err != nil {
		cancel()
	}
	other := <-failed
	if other != nil && !errors.Is(other, context.Canceled) {
		other = fmt.Errorf("sink: %w", other)
	}
	return cmp.Or(err, other)
}

func (c *comparison) sums(ctx context.Context, s side, q connectors.Comparison) (connectors.Sums, error) {
	q.Table = s.table
	if c.hashed {
		return s.comparer.Sums(ctx, q)
	}
	out := connectors.Sums{}
	h := newHasher(c)
	err := s.comparer.Rows(ctx, q, func(row []connectors.Value) error {
		b := h.bucket(row)
		sum := out[b]
		out[b] = connectors.Sum{Rows: sum.Rows + 1, Hash: sum.Hash + h.row(row)}
		return nil
	})
	return out, err
}

// buckets finds the keys that differ in some buckets.
func (c *comparison) buckets(ctx context.Context, q connectors.Comparison, buckets []int) error {
	wanted := map[int]bool{}
	for _, b := range buckets {
		wanted[b] = true
	}
	if c.hashed {
		q.Buckets = buckets
	}
	found, err := c.look(ctx, q, func(h *hasher, row []connectors.Value) bool { return c.hashed || wanted[h.bucket(row)] })
	if err != nil {
		return err
	}
	for key, p := range found {
		if p.differs() {
			if len(c.pending) >= maxDifferent {
				c.result.More = true
				return nil
			}
			c.pending[key] = &suspect{key: p.key, last: p.hash[0], had: p.has[0]}
		}
	}
	return nil
}

// pair is what both ends have for one key.
type pair struct {
	key     []connectors.Value
	has     [2]bool
	hash    [2]uint64
	columns [2][]uint64 // of each column
}

func (p *pair) differs() bool { return p.has[0] != p.has[1] || p.hash[0] != p.hash[1] }

// look reads rows at both ends and pairs them by key.
func (c *comparison) look(ctx context.Context, q connectors.Comparison, wanted func(*hasher, []connectors.Value) bool) (map[string]*pair, error) {
	var ends [2]map[string]*pair
	err := c.both(ctx, func(ctx context.Context, i int, s side) error {
		q := q
		q.Table = s.table
		h := newHasher(c)
		found := map[string]*pair{}
		ends[i] = found
		return s.comparer.Rows(ctx, q, func(row []connectors.Value) error {
			if !wanted(h, row) {
				return nil
			}
			p := &pair{key: connectors.CloneRow(row[:len(c.key)])}
			p.has[i], p.hash[i] = true, h.row(row)
			if q.Keys != nil {
				p.columns[i] = slices.Clone(h.columns(row))
			}
			found[string(h.key(row))] = p
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	out := ends[0]
	for key, p := range ends[1] {
		if first := out[key]; first != nil {
			first.has[1], first.hash[1], first.columns[1] = true, p.hash[1], p.columns[1]
			continue
		}
		out[key] = p
	}
	return out, nil
}

// suspect is a key that differed when it was last looked at.
type suspect struct {
	key  []connectors.Value // of the source's row where there is one
	last uint64             // hash of the source's row
	had  bool               // the source had a row
	seen []uint64           // hashes of the rows that the source had before; 0: none
	same int                // looks in a row, each after a settling, that found the source's row unchanged
}

// settle looks at the keys that differ until each is either equal or surely different.
func (c *comparison) settle(ctx context.Context) error {
	for look := 0; look < maxLooks && len(c.pending) > 0; look++ {
		c.progress(Progress{Step: "waiting until the sink has what the source had"})
		if err := c.o.Settle(ctx); err != nil {
			return err
		}
		for keys := range slices.Chunk(slices.Sorted(maps.Keys(c.pending)), keyGroup) {
			if err := c.again(ctx, keys); err != nil {
				return err
			}
		}
	}
	c.result.Unsettled = len(c.pending)
	return nil
}

// again looks at keys once more.
func (c *comparison) again(ctx context.Context, keys []string) error {
	q := connectors.Comparison{Key: c.key, Columns: c.columns}
	for _, key := range keys {
		q.Keys = append(q.Keys, c.pending[key].key)
	}
	found, err := c.look(ctx, q, func(*hasher, []connectors.Value) bool { return true })
	if err != nil {
		return err
	}
	for _, key := range keys {
		p, s := found[key], c.pending[key]
		if p == nil || !p.differs() {
			delete(c.pending, key)
			continue
		}
		if p.has[0] != s.had || p.hash[0] != s.last {
			s.seen = append(s.seen, s.version())
			if slices.Contains(s.seen, p.version(1)) { // the sink follows a row that goes on changing
				delete(c.pending, key)
				continue
			}
			s.had, s.last, s.same = p.has[0], p.hash[0], 0
			continue
		}
		if s.same++; s.same < sameLooks {
			continue
		}
		delete(c.pending, key)
		c.result.Different = append(c.result.Different, c.difference(p))
	}
	return nil
}

// version stands for the row that a key had at one end; 0 for none.
func (p *pair) version(end int) uint64 {
	if !p.has[end] {
		return 0
	}
	return max(1, p.hash[end])
}

func (s *suspect) version() uint64 {
	if !s.had {
		return 0
	}
	return max(1, s.last)
}

func (c *comparison) difference(p *pair) Difference {
	d := Difference{Values: p.key, Kind: Differs}
	switch {
	case !p.has[1]:
		d.Kind = Missing
	case !p.has[0]:
		d.Kind = Extra
	default:
		for i, name := range c.columns {
			if p.columns[0][i] != p.columns[1][i] {
				d.Columns = append(d.Columns, name)
			}
		}
	}
	text := []byte{'{'}
	for i, name := range c.key {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(connectors.AppendJSONString(text, []byte(name)), ':')
		text = connectors.AppendJSON(text, p.key[i])
	}
	d.Key = string(append(text, '}'))
	return d
}
