package postgres

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// describeTable gives a table the version that a relation message describes. The message has the names and types that
// are valid at its place in the stream; the catalog, which may be ahead, knows what the message lacks. A message that
// repeats the version that we have is the server's first for this connection, or says that something about the table has
// changed, if only that a column of the same name and type took the place of another.
func (s *stream) describeTable(ctx context.Context, t *tracked, m *relationMessage) error {
	first := !t.described
	t.described = true
	if first && t.known == nil && t.shape != nil && t.shape.table.Schema == m.schema && t.shape.table.Name == m.name && t.relation.identity == m.identity &&
		alike(t.shape.columns(), m.columns) && slices.Equal(t.shape.identity[:t.shape.streamed], m.key) {
		return nil
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	current, err := s.numbers(ctx, t, m)
	if err != nil {
		return err
	}
	relation := *current
	relation.schema, relation.name, relation.identity = m.schema, m.name, m.identity
	if relation.spec = s.catalog.config.spec(relation.full()); relation.spec == nil {
		s.renamedAway(t, m)
		return nil
	}
	if m.identity != 'f' && m.identity != 'n' {
		relation.setIdentity(m)
	}
	shape, err := s.catalog.shape(ctx, &relation, m.columns)
	if err != nil {
		return err
	}
	copy(shape.identity, m.key)
	if t.shape != nil && t.shape.table.Equal(shape.table) {
		shape.table = t.shape.table // one pointer for one version
	} else {
		s.look()
	}
	s.follow(t, &relation, shape)
	if !s.covered {
		t.known = nil
		if !t.waits && (t.sync == nil || t.sync.wasLive) { // else nothing of it is handed over
			s.versions.set(t.oid, shape.columns(), shape.table)
		}
	}
	return nil
}

// numbers gives the columns of a message their attribute numbers and returns what the catalog says of the table. Where they
// are in doubt, the table is read anew, unless its rows come behind this message anyway.
func (s *stream) numbers(ctx context.Context, t *tracked, m *relationMessage) (*relation, error) {
	if s.covered && s.syncs.current.source.relation != nil {
		current := s.syncs.current.source.relation
		number(m.columns, current, t.previous(), s.tx.xid)
		return current, nil
	}
	current, found, err := s.catalog.refresh(ctx, t.relation)
	if err != nil {
		return nil, err
	}
	if !found { // dropped since
		current = t.relation
	}
	if !number(m.columns, current, t.previous(), s.tx.xid) && !s.covered && (t.sync == nil || t.sync.repair != nil) {
		s.imprints.doubts(t.oid)
		s.look()
	}
	return current, nil
}

// lookTime bounds a look at the catalog in the middle of the stream.
const lookTime = 20 * time.Second

// unhurried is a context for the work on a message that cannot be done again: the end of one Read must not cut it.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lookTime)
}

// relabelEvery bounds how often labels are read again that the catalog may not have any more.
const relabelEvery = time.Second

// relabel gives a table a version with the labels that its enums have now: the server does not describe a table again when
// one of its enums gets a label.
func (s *stream) relabel(ctx context.Context, t *tracked) error {
	if time.Since(t.relabeled) < relabelEvery {
		return nil
	}
	t.relabeled = time.Now()
	s.look()
	ctx, cancel := unhurried(ctx)
	defer cancel()
	shape, err := s.catalog.shape(ctx, t.relation, t.shape.wire[:t.shape.streamed])
	if err != nil {
		return err
	}
	shape.identity = t.shape.identity
	if t.shape.table.Equal(shape.table) {
		shape.table = t.shape.table
	}
	t.shape = shape
	return nil
}

// setIdentity takes the identity's columns from the message. Their order is the catalog's, where that has the same ones.
func (r *relation) setIdentity(m *relationMessage) {
	var flagged []int16
	for i, key := range m.key {
		if key {
			flagged = append(flagged, m.columns[i].number)
		}
	}
	old := &r.primary
	if m.identity == 'i' {
		old = &r.index
	}
	if slices.Equal(slices.Sorted(slices.Values(*old)), slices.Sorted(slices.Values(flagged))) || slices.Contains(flagged, 0) {
		return
	}
	*old = flagged
}

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }
