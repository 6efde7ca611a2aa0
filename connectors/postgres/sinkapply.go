package postgres

import (
	"bytes"
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// apply writes changes inside the open transaction. The changes of one table are netted first; tables follow each
// other in the order in which they first appear.
func (s *Sink) apply(ctx context.Context, changes []connectors.Change, w way) error {
	defer s.release()
	var last *effect
	for i := range changes {
		c := &changes[i]
		if c.Op == connectors.Message {
			continue
		}
		r := s.routes[c.Table]
		if last == nil || last.route != r {
			var err error
			if last, err = s.effectFor(ctx, r, w); err != nil {
				return err
			}
		}
		if err := s.take(ctx, last, c, w); err != nil {
			return err
		}
	}
	for _, n := range s.effects {
		if err := s.flush(ctx, n, w); err != nil {
			return err
		}
	}
	return nil
}

// take adds a change to its effect, or leaves it out as the settings say.
func (s *Sink) take(ctx context.Context, n *effect, c *connectors.Change, w way) error {
	gone := c.Op == connectors.Delete || c.Op == connectors.Truncate
	if gone && s.config.Deletes == deletesIgnore {
		return nil
	}
	if s.config.Write == writeAppend || len(n.route.key) == 0 {
		return s.takeKeyless(ctx, n, c, w)
	}
	if c.Op == connectors.Truncate && s.config.Deletes == deletesSoft {
		return s.markAll(ctx, n, w)
	}
	if c.Op == connectors.Update && c.Before != nil {
		if n.route.moved(c) {
			return s.takeMove(ctx, n, c, w)
		}
		// What the new image lacks and the old one has did not change.
		c = &connectors.Change{Op: connectors.Update, After: n.merge(c.Before, c.After)}
	}
	if c.Op != connectors.Truncate && !n.route.carriesKey(c) {
		return refusal{reason: "the change does not carry its key"}
	}
	n.add(c, s.config.Deletes == deletesSoft)
	return nil
}

// carriesKey reports that the image which says what a change is about has every column of the key.
func (r *route) carriesKey(c *connectors.Change) bool {
	image := c.After
	if c.Op == connectors.Delete {
		image = c.Before
	}
	for _, k := range r.key {
		if k >= len(image) || image[k].IsAbsent() {
			return false
		}
	}
	return true
}

// moved reports that an update changed the key.
func (r *route) moved(c *connectors.Change) bool {
	for _, k := range r.key {
		if before := c.Before[k]; !before.IsAbsent() && !c.After[k].IsAbsent() && !before.Equal(c.After[k]) {
			return true
		}
	}
	return false
}

// effectFor returns the effect of a route, and writes an earlier one of the same target under another version first.
func (s *Sink) effectFor(ctx context.Context, r *route, w way) (*effect, error) {
	for _, n := range s.effects {
		if n.route == r {
			return n, nil
		}
		if n.route.target == r.target {
			if err := s.flush(ctx, n, w); err != nil {
				return nil, err
			}
			n.reset(r)
			return n, nil
		}
	}
	n := &effect{}
	if last := len(s.free) - 1; last >= 0 {
		n, s.free = s.free[last], s.free[:last]
	}
	n.reset(r)
	s.effects = append(s.effects, n)
	return n, nil
}

// release gives the nets back for the next batch.
func (s *Sink) release() {
	for _, n := range s.effects {
		n.reset(nil)
	}
	s.free, s.effects = append(s.free, s.effects...), s.effects[:0]
}

// flush writes an effect: the truncation, then what goes, then what stays, so that a unique value which one row gives up is
// free for the next.
func (s *Sink) flush(ctx context.Context, n *effect, w way) error {
	if n.empty() {
		return nil
	}
	err := s.flushTruncate(ctx, n)
	if err == nil {
		err = s.flushRemoved(ctx, n)
	}
	if err == nil {
		err = s.flushRows(ctx, n, w)
	}
	n.truncate = false
	n.clear()
	return err
}

func (s *Sink) flushTruncate(ctx context.Context, n *effect) error {
	if !n.truncate {
		return nil
	}
	table := n.route.target.sql
	_, err := s.exec(ctx, "SAVEPOINT emptied; TRUNCATE "+table+"; RELEASE SAVEPOINT emptied")
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == stateUnsupported || pg.Code == stateForbidden) {
		// A foreign key refers to the table, it is a view, or the right to truncate is missing: row by row then.
		_, err = s.exec(ctx, "ROLLBACK TO SAVEPOINT emptied; DELETE FROM "+table+"; RELEASE SAVEPOINT emptied")
	}
	return s.fault(err)
}

// flushRows writes what stays, rows with the same set of columns together: updates first, then new rows.
func (s *Sink) flushRows(ctx context.Context, n *effect, w way) error {
	type group struct {
		layout *layout
		kind   effectKind
	}
	var done []group
	for _, kind := range []effectKind{update, fresh} {
		done = done[:0]
		for i := range n.rows {
			if n.rows[i].kind != kind || n.rows[i].row == nil {
				continue
			}
			if len(done) > 0 && done[len(done)-1].layout.fits(n.route, n.rows[i].row) {
				continue
			}
			l := n.route.layout(n.rows[i].row)
			seen := false
			for _, g := range done {
				seen = seen || g.layout == l
			}
			if seen {
				continue
			}
			done = append(done, group{l, kind})
			if err := s.flushGroup(ctx, n, l, kind, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushGroup writes the rows of one kind and layout.
func (s *Sink) flushGroup(ctx context.Context, n *effect, l *layout, kind effectKind, w way) error {
	rows, format, err := s.encodeGroup(n, l, kind)
	if err != nil {
		return err
	}
	t := n.route.target
	if t.plain && (len(n.route.key) == 0 || kind == fresh && w == wholesale && t.retry.ready()) {
		n.route.write(l)
		s.direct = true
		if err = s.copy(ctx, t, l.copyTo+format); err == nil {
			t.retry.worked()
		} else if isDuplicate(err) {
			t.retry.failed()
		}
		return err
	}
	if err := s.openStage(ctx, t); err != nil {
		return err
	}
	n.route.write(l)
	if err := s.copy(ctx, t, l.stage+format); err != nil {
		return err
	}
	t.staged += rows
	if l.whole || len(n.route.key) == 0 {
		_, err := s.exec(ctx, l.upsert)
		return s.fault(err)
	}
	touched := int64(0)
	if l.update != "" {
		if touched, err = s.exec(ctx, l.update); err != nil {
			return s.fault(err)
		}
	}
	if touched < int64(rows) {
		_, err = s.exec(ctx, l.insert)
	}
	return s.fault(err)
}

// encodeGroup fills the buffer, in the binary format if every value has a form there.
func (s *Sink) encodeGroup(n *effect, l *layout, kind effectKind) (rows int, format string, err error) {
	if l.binary && l.text.ready() {
		rows, err = s.encodeRows(n, l, kind, true)
		if err == nil {
			l.text.worked()
			return rows, "binary)", nil
		}
		l.text.failed()
	}
	rows, err = s.encodeRows(n, l, kind, false)
	return rows, "text)", err
}

func (s *Sink) encodeRows(n *effect, l *layout, kind effectKind, binary bool) (rows int, err error) {
	s.buffer = s.buffer[:0]
	if binary {
		s.buffer = append(s.buffer, binaryHeader...)
	}
	for i := range n.rows {
		r := &n.rows[i]
		if r.kind != kind || r.row == nil || !l.fits(n.route, r.row) {
			continue
		}
		if binary {
			s.buffer, err = appendBinaryRow(s.buffer, n.route, l.places, r.row, r.deleted)
		} else {
			s.buffer, err = s.encode.appendRow(s.buffer, n.route, l, r.row, r.deleted)
		}
		if err != nil {
			return rows, err
		}
		rows++
	}
	if binary {
		s.buffer = append(s.buffer, 0xff, 0xff)
	}
	return rows, nil
}

// copy sends the buffer into a table.
func (s *Sink) copy(ctx context.Context, t *target, sql string) error {
	_, err := s.conn.PgConn().CopyFrom(ctx, bytes.NewReader(s.buffer), sql)
	if err == nil {
		return nil
	}
	var refused refusal
	if fault := s.fault(err); errors.As(fault, &refused) && refused.column == "" {
		refused.column = columnOf(t, err)
		return refused
	} else {
		return fault
	}
}

// flushRemoved deletes or marks the rows that are gone. The keys travel as one array of texts for each column of the
// key, so their number has no limit.
func (s *Sink) flushRemoved(ctx context.Context, n *effect) error {
	r := n.route
	parameters := make([][]byte, len(r.key))
	removed := 0
	for i := range n.rows {
		if n.rows[i].kind == remove {
			removed++
		}
	}
	if removed == 0 {
		return nil
	}
	for p, k := range r.key {
		column := &r.target.columns[r.columns[k]]
		array := []byte{'{'}
		for i := range n.rows {
			if n.rows[i].kind != remove {
				continue
			}
			if len(array) > 1 {
				array = append(array, ',')
			}
			text, err := s.encode.appendText(s.encode.scratch[:0], column, n.rows[i].image[k])
			s.encode.scratch = text
			if err != nil {
				return refusal{column: column.name, reason: err.Error()}
			}
			array = appendQuoted(array, text)
		}
		parameters[p] = append(array, '}')
	}
	result := s.conn.PgConn().ExecParams(ctx, r.removal(), parameters, nil, nil, nil).Read()
	return s.fault(result.Err)
}
