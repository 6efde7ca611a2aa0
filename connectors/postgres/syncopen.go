package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// errUnseen: a commit is in the WAL, and so in the stream, a moment before others see it; longer where commits wait for a
// standby.
var errUnseen = errors.New("its changes were handed over, but other sessions do not see them yet")

// openSync takes the snapshot of one table. A table that is new to the publication first waits for the end of all
// transactions that were open when it was added.
func (s *Source) openSync(ctx context.Context, t syncTarget) (*syncSource, error) {
	if t.await {
		if err := s.awaitWriters(ctx, !t.published); err != nil {
			return nil, err
		}
	}
	holder, name, err := s.exportSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer holder.Close(context.WithoutCancel(ctx))
	o := &syncSource{}
	var text string
	if err := holder.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&text); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if o.seen, err = parseVisibility(text); err != nil {
		return nil, err
	}
	if err := o.seen.shows(t.recent); err != nil {
		return nil, err
	}
	if o.until, err = currentEnd(ctx, holder); err != nil {
		return nil, err
	}
	list, err := s.catalog.relationsOn(ctx, holder, t.relation.oid)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", t.relation.full(), err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("table %s is gone, or has a name that tables does not choose", t.relation.full())
	}
	o.relation = list[0]
	shape, err := s.catalog.shapeOf(ctx, o.relation)
	if err != nil {
		return nil, err
	}
	if t.shape != nil && t.shape.table.Equal(shape.table) {
		shape.table = t.shape.table
	}
	workers, err := s.openWorkers(ctx, name)
	if err != nil {
		return nil, err
	}
	o.snapshot, err = newSnapshot(ctx, snapshotOptions{limits: s.env.Limits, buffer: int(s.config.SnapshotBuffer),
		ranges: s.server.version >= streamingVersion, tables: []*snapshotTable{{relation: o.relation, shape: shape}},
		mark: &snapshotMark{XMin: o.seen.xmin}, start: o.until, report: s.env.Report, workers: workers, notify: func() { s.wake() }})
	return o, err
}

// shows refuses a moment that does not show every one of these transactions.
func (v *visibility) shows(recent []uint32) error {
	for _, xid := range recent {
		if xid != 0 && !v.sees(xid) {
			return fmt.Errorf("transaction %d: %w", xid, errUnseen)
		}
	}
	return nil
}

// awaitWriters waits until every transaction is over that is open now. One of them may have written to a table before it
// was published, which the stream does not bring, and end after the snapshot, which would not show it either. Naming the
// publication's option again (touch) makes the server look at its tables anew: a transaction that began before the table was
// added could have made it remember the list without it.
func (s *Source) awaitWriters(ctx context.Context, touch bool) error {
	return s.catalog.separate(ctx, func(conn *pgx.Conn) error {
		var limit int64
		if err := conn.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8").Scan(&limit); err != nil {
			return fmt.Errorf("wait for open transactions: %w", err)
		}
		for told := false; ; told = true {
			var oldest int64
			if err := conn.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8").Scan(&oldest); err != nil {
				return fmt.Errorf("wait for open transactions: %w", err)
			}
			if oldest >= limit {
				break
			}
			if !told {
				s.env.Logger.Info("waiting for open transactions before reading a new table", "source", s.env.Name)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
		if !touch {
			return nil
		}
		statement := "ALTER PUBLICATION " + ident(s.config.Publication) + " SET (publish_via_partition_root = true)"
		if _, err := conn.Exec(ctx, statement); err != nil { // not ours to change, so not ours to have added the table to
			s.env.Logger.Debug("touch publication", "source", s.env.Name, "error", err)
		}
		return nil
	})
}

// Resync asks for a fresh snapshot of a table. It may run beside Read.
func (s *Source) Resync(_ context.Context, table string) error {
	s.known.Lock()
	defer s.known.Unlock()
	for _, t := range s.tables {
		if t.name == table {
			s.syncs.request(syncRequest{oid: t.oid})
			s.wake()
			return nil
		}
	}
	return fmt.Errorf("resync table %s: source %q does not read it", strconv.Quote(table), s.env.Name)
}

// wake makes Read look at what there is besides the stream.
func (s *Source) wake() {
	if st := s.stream.Load(); st != nil {
		st.wal.wake()
	}
}
