package mysql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// leave is the way from mode cdc to mode timestamp.
//
// The binary log is read to its end, again and again, until whatever was open when the way began has ended: then a bound lies
// above all that was stamped before. The bound is asked for, and the log read to its end once more. What lies below the
// bound had been committed when it was asked for, so the log has brought it, and the mark of each table is the bound. What
// lies above it and was brought all the same was brought on the way. These rows are remembered by their hashes, so that the
// next runs leave them out unless they have changed since.
//
// The positions on the way are those of mode cdc: after a crash the way begins again, and what was brought above the bound of
// the second one after it began. Nothing that the first one brought is above that.
type leave struct {
	source *Source             // the binary log to its present end; nil: to be opened
	at     connectors.Position // where it goes on
	began  string              // the server's time
	until  time.Time           // a bounded source waits no longer for transactions that are open
	last   bool                // the bound stands: this is the last time that the log is read
	due    time.Time
	rows   map[tableName]map[uint64]string // what was brought: the cursor by the hash of the row
}

// maxBrought bounds what a mark remembers of a table. What is more comes once more.
const maxBrought = 1 << 14

// leave begins the way from mode cdc.
func (s *extract) leave(ctx context.Context, from connectors.Position) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if err := s.lock.hold(ctx, s.db, s.env.Name); err != nil {
		return err
	}
	o, err := s.bounds(ctx)
	if err != nil {
		return err
	}
	s.before = &leave{at: from, began: o.utc, until: time.Now().Add(s.config.Settle), rows: map[tableName]map[uint64]string{}}
	return s.before.open(ctx, s) // a position that is lost has to be told at once
}

func (l *leave) open(ctx context.Context, s *extract) (err error) {
	config, env := s.config, s.env
	config.Mode, config.Snapshot, env.Once = modeCDC, snapshotInitial, true
	if l.source, err = newSource(ctx, config, env, l.at); err != nil {
		return fmt.Errorf("read binary log to its end: %w", err)
	}
	return nil
}

func (l *leave) close(ctx context.Context) error {
	if l == nil || l.source == nil {
		return nil
	}
	source := l.source
	l.source = nil
	return source.Close(ctx)
}

// readBefore passes on what the binary log has, until the marks are settled.
func (s *extract) readBefore(ctx context.Context) (b connectors.Batch, done bool, err error) {
	l := s.before
	for {
		if l.source == nil {
			s.due = l.due
			if err := s.wait(ctx); err != nil {
				return b, false, err
			}
			if err := l.advance(ctx, s); err != nil {
				return b, false, err
			}
			if err := l.open(ctx, s); err != nil {
				return b, false, err
			}
		}
		b, err := l.source.Read(ctx)
		if err == nil {
			l.note(s, b)
			return b, false, nil
		}
		if !errors.Is(err, io.EOF) {
			return b, false, err
		}
		if err := l.close(ctx); err != nil {
			return b, false, err
		}
		if l.last {
			s.before = nil
			return connectors.Batch{}, true, s.settleMarks(ctx, l)
		}
		l.due = time.Now().Add(min(s.config.Poll, time.Second))
	}
}

// note remembers what was brought.
func (l *leave) note(s *extract, b connectors.Batch) {
	if b.Position != nil {
		l.at = slices.Clone(b.Position)
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.After == nil {
			continue
		}
		j := slices.IndexFunc(s.tables, func(t *extractTable) bool {
			return t.name.schema == c.Table.Schema && t.name.name == c.Table.Name && len(t.shape.table.Columns) == len(c.After)
		})
		if j < 0 {
			continue
		}
		t := s.tables[j]
		column := slices.IndexFunc(t.shape.table.Columns, func(c connectors.Column) bool { return strings.EqualFold(c.Name, t.spec.Cursor) })
		if column < 0 {
			continue // the cursor is not among the columns that are read
		}
		if l.rows[t.name] == nil {
			l.rows[t.name] = map[uint64]string{}
		}
		l.rows[t.name][hashOf(c.After)] = string(c.After[column].AppendText(nil))
	}
}

// advance asks for the bound, and settles it once everything that was stamped before the way began is below it.
func (l *leave) advance(ctx context.Context, s *extract) error {
	if _, err := s.bounds(ctx); err != nil {
		return err
	}
	below := func(t *extractTable) bool {
		return t.failed || t.bound != "" && (t.boundAt > l.began || t.numbers && t.boundAt == l.began)
	}
	waiting := slices.ContainsFunc(s.tables, func(t *extractTable) bool { return !below(t) })
	if waiting && (!s.env.Once || time.Now().Before(l.until)) {
		return nil
	}
	if l.last = true; waiting {
		s.env.Logger.Warn("a transaction was open all the time: rows come once more", "source", s.env.Name)
	}
	return s.learn(ctx)
}

// settleMarks makes the bound the mark of each table.
func (s *extract) settleMarks(ctx context.Context, l *leave) error {
	o, err := s.look(ctx)
	if err != nil {
		return err
	}
	for _, t := range s.tables {
		if t.bound == "" { // nothing is known of numbers while something is open: all is read again
			continue
		}
		_, bound, _ := strings.Cut(t.bound, " ")
		empty := strings.HasSuffix(bound, "FALSE")
		if !empty {
			t.mark.First, t.mark.Nulled, t.mark.After = false, true, []string{bound}
		}
		t.mark.Brought, t.mark.BroughtAt = nil, o.utc
		for hash, cursor := range l.rows[t.name] {
			if (empty || !t.isBelow(cursor, bound)) && len(t.mark.Brought) < 8*maxBrought {
				t.mark.Brought = binary.LittleEndian.AppendUint64(t.mark.Brought, hash)
			}
		}
	}
	return nil
}

// isBelow compares a cursor, as records have it, with a bound.
func (t *extractTable) isBelow(cursor, bound string) bool {
	if t.numbers {
		return len(cursor) < len(bound) || len(cursor) == len(bound) && cursor <= bound
	}
	return strings.Replace(strings.TrimSuffix(cursor, "Z"), "T", " ", 1) < strings.Trim(bound, "'")
}

// hashOf is FNV-1a over the values of a row.
func hashOf(row []connectors.Value) uint64 {
	h := fnv.New64a()
	var text []byte
	for _, v := range row {
		text = connectors.AppendJSON(text[:0], v)
		if v.IsAbsent() {
			text = append(text[:0], '~')
		}
		_, _ = h.Write(append(text, 0)) // a hash never fails
	}
	return h.Sum64()
}

// brought is the set of the rows that the binary log brought before this mode began; nil: none.
func (m *extractedTable) brought() map[uint64]struct{} {
	if len(m.Brought) == 0 {
		return nil
	}
	out := make(map[uint64]struct{}, len(m.Brought)/8)
	for rest := m.Brought; len(rest) >= 8; rest = rest[8:] {
		out[binary.LittleEndian.Uint64(rest)] = struct{}{}
	}
	return out
}

// wasBrought reports whether mode cdc has handed over just this row.
func (t *snapshotTable) wasBrought(row []connectors.Value) bool {
	if t.brought == nil {
		return false
	}
	_, known := t.brought[hashOf(row)]
	return known
}

// learn takes the keys that are there for known, where deletes are looked for. What is deleted after that is in the binary
// log, or found by the next look, or both.
func (s *extract) learn(ctx context.Context) error {
	if s.deletes == nil {
		return nil
	}
	r, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	for _, t := range s.tables {
		if t.keys == nil || t.spec.Query != "" {
			continue
		}
		if err := s.deletes.fill(ctx, r, t.keys, t.mark, true); err != nil {
			return fmt.Errorf("read table %s: %w", t.name.full(), settle(plain(err)))
		}
	}
	return nil
}
