package memory

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/trunkline/trunkline/connectors"
)

// Row is a row as text by column name; a NULL is not in it.
type Row map[string]string

// Store is a set of tables that sinks write into. Its methods may be called from any goroutine.
type Store struct {
	mu        sync.Mutex
	tables    map[string]*table
	positions map[streamKey]mark
	epochs    map[string]int64 // by group: the number of the newest writer
	log       []Applied
	writes    int
	steps     []connectors.Migration
	resist    func(connectors.Migration) error
	before    []error
	after     []error
	refuse    func(*connectors.Change) error
	blocked   chan struct{} // not nil: Write waits until it is closed
	waiting   int
	shut      chan struct{} // not nil: Open and OpenPlain wait until it is closed
	changed   chan struct{}
}

// Applied is one change that took effect.
type Applied struct {
	Stream string
	Offset int64
	Op     connectors.Op
	Table  string
	Before Row
	After  Row
}

type streamKey struct{ group, stream string }

type mark struct {
	position connectors.Position
	epoch    int64
}

// table keeps rows by key in the order of their first appearance; rows without a key are only appended.
type table struct {
	rows  []Row
	index map[string]int // key to rows; a deleted row leaves a nil
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		tables:    make(map[string]*table),
		positions: make(map[streamKey]mark),
		epochs:    make(map[string]int64),
		changed:   make(chan struct{}),
	}
}

// Rows returns a copy of the rows of a table (schema.table) in the order in which they first appeared.
func (s *Store) Rows(name string) []Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[name]
	if t == nil {
		return nil
	}
	out := make([]Row, 0, len(t.rows))
	for _, r := range t.rows {
		if r != nil {
			out = append(out, r.clone())
		}
	}
	return out
}

// Count returns the number of rows of a table.
func (s *Store) Count(name string) int { return len(s.Rows(name)) }

// Log returns every change that took effect, in order: a change that was applied twice stands in it twice.
func (s *Store) Log() []Applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Writes returns how many batches were committed.
func (s *Store) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// Migrations returns the calls of Migrate that succeeded.
func (s *Store) Migrations() []connectors.Migration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}

// Position returns what was committed for a stream of a group.
func (s *Store) Position(group, stream string) connectors.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.positions[streamKey{group, stream}].position
}

// Resist sets what Migrate answers instead of following; nil, or an answer of nil, follows.
func (s *Store) Resist(f func(connectors.Migration) error) { s.set(func() { s.resist = f }) }

// follow changes the rows of a table as its columns changed.
func (s *Store) follow(m connectors.Migration) {
	t := s.table(m.To.FullName())
	for _, row := range t.rows {
		if row == nil {
			continue
		}
		for _, name := range m.Dropped() {
			delete(row, name)
		}
		moved := map[string]string{}
		for _, r := range m.Renames() {
			if v, ok := row[r.From]; ok {
				moved[r.To] = v
				delete(row, r.From)
			}
		}
		for name, v := range moved {
			row[name] = v
		}
	}
}

// FailBefore makes the next Write fail with err and leave nothing. Several calls queue up.
func (s *Store) FailBefore(err error) { s.set(func() { s.before = append(s.before, err) }) }

// FailAfter makes the next Write commit and then fail with err, as when the connection breaks before the answer.
func (s *Store) FailAfter(err error) { s.set(func() { s.after = append(s.after, err) }) }

// Refuse sets what the store says of each row; an error refuses it for good. nil accepts all. f must not call the store.
func (s *Store) Refuse(f func(*connectors.Change) error) { s.set(func() { s.refuse = f }) }

// Block makes every Write hang until release is called or its context ends.
func (s *Store) Block() (release func()) { return s.bar(&s.blocked) }

// BlockOpen makes every Open and OpenPlain hang likewise.
func (s *Store) BlockOpen() (release func()) { return s.bar(&s.shut) }

func (s *Store) bar(way *chan struct{}) (release func()) {
	ch := make(chan struct{})
	s.set(func() { *way = ch })
	return sync.OnceFunc(func() {
		s.set(func() {
			if *way == ch {
				*way = nil
			}
			close(ch)
		})
	})
}

// pass waits until nothing bars the way.
func (s *Store) pass(ctx context.Context, way *chan struct{}) error {
	s.mu.Lock()
	barred := *way
	s.mu.Unlock()
	if barred != nil {
		select {
		case <-barred:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Blocked returns how many calls of Write hang now.
func (s *Store) Blocked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// Wait blocks until cond holds, which is asked again after everything that happens to the store. cond may call the
// store's methods.
func (s *Store) Wait(ctx context.Context, cond func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.wake()
}

// wake is called with the lock held.
func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) table(name string) *table {
	t := s.tables[name]
	if t == nil {
		t = &table{index: make(map[string]int)}
		s.tables[name] = t
	}
	return t
}

// apply makes one change of a batch that was accepted. The lock is held.
func (s *Store) apply(stream string, c *connectors.Change) {
	if c.Op == connectors.Message {
		return
	}
	t := s.table(c.Table.FullName())
	switch c.Op {
	case connectors.Truncate:
		*t = table{index: make(map[string]int)}
	case connectors.Delete:
		t.remove(keyOf(c.Table, c.Before))
	default:
		t.upsert(c)
	}
	s.log = append(s.log, Applied{
		Stream: stream, Offset: c.Offset, Op: c.Op, Table: c.Table.FullName(),
		Before: rowOf(c.Table, c.Before), After: rowOf(c.Table, c.After),
	})
}

func (t *table) upsert(c *connectors.Change) {
	key := keyOf(c.Table, c.After)
	if key == "" {
		t.rows = append(t.rows, rowOf(c.Table, c.After))
		return
	}
	row := Row{}
	if c.Op == connectors.Update && c.Before != nil {
		if old := keyOf(c.Table, c.Before); old != key {
			row = t.remove(old)
		}
	}
	at, ok := t.index[key]
	if ok {
		row = t.rows[at]
	} else {
		at = len(t.rows)
		t.rows = append(t.rows, nil)
		t.index[key] = at
	}
	t.rows[at] = row.merge(c.Table, c.After)
}

// remove returns the row that it took out, or an empty one.
func (t *table) remove(key string) Row {
	at, ok := t.index[key]
	if !ok {
		return Row{}
	}
	row := t.rows[at]
	t.rows[at] = nil
	delete(t.index, key)
	return row
}

// merge returns a copy of r with the values of an image; what the image does not carry stays.
func (r Row) merge(t *connectors.Table, image []connectors.Value) Row {
	out := r.clone()
	for i, v := range image {
		switch {
		case v.IsAbsent():
		case v.IsNull():
			delete(out, t.Columns[i].Name)
		default:
			out[t.Columns[i].Name] = string(v.AppendText(nil))
		}
	}
	return out
}

func (r Row) clone() Row {
	out := make(Row, len(r))
	for k, v := range r {
		out[k] = v
	}
	return out
}

func rowOf(t *connectors.Table, image []connectors.Value) Row {
	if image == nil {
		return nil
	}
	return Row{}.merge(t, image)
}

// keyOf returns text that is equal for equal keys only; empty for a table without a key.
func keyOf(t *connectors.Table, image []connectors.Value) string {
	var key []byte
	for _, k := range t.Key {
		if k >= len(image) {
			return ""
		}
		text := image[k].AppendText(nil)
		key = append(key, byte('0'+image[k].Kind()))
		key = strconv.AppendInt(key, int64(len(text)), 10)
		key = append(key, ':')
		key = append(key, text...)
	}
	return string(key)
}
