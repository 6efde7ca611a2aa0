package postgres

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// retainedEvery is how often it is asked how much WAL the server keeps for us.
const retainedEvery = 10 * time.Second

// watch is what a source does beside reading: it clears the note that a snapshot is pending once a position is durable,
// looks for new tables, asks again for the sync of those whose sync failed, and reports how much WAL the server keeps.
type watch struct {
	durable atomic.Bool
	acks    chan struct{}
	looks   chan struct{}
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func startWatch(ctx context.Context, s *Source) *watch {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watch{acks: make(chan struct{}, 1), looks: make(chan struct{}, 1), cancel: cancel}
	w.done.Add(1)
	go func() {
		defer w.done.Done()
		w.run(run, s)
	}()
	return w
}

// acked tells that a position is durable.
func (w *watch) acked() {
	if w != nil && !w.durable.Swap(true) {
		w.acks <- struct{}{}
	}
}

// look asks for a look at the tables soon.
func (w *watch) look() {
	if w == nil {
		return
	}
	select {
	case w.looks <- struct{}{}:
	default:
	}
}

func (w *watch) close() {
	if w != nil {
		w.cancel()
		w.done.Wait()
	}
}

// run ends with its context. What fails is tried again at the next tick: nothing here is needed for the stream.
func (w *watch) run(ctx context.Context, s *Source) {
	rescan := time.NewTicker(s.config.Rescan)
	defer rescan.Stop()
	retained := time.NewTicker(retainedEvery)
	defer retained.Stop()
	again := time.NewTimer(s.config.Rescan)
	defer again.Stop()
	refused := map[uint32]string{}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-w.acks:
			err = s.catalog.do(ctx, func(conn *pgx.Conn) error { return setPending(ctx, conn, s.config.Publication, false) })
			if err != nil {
				w.durable.Store(false) // the next position tries again
			}
		case <-retained.C:
			err = s.reportRetained(ctx)
		case <-rescan.C:
			err = s.rescan(ctx, refused)
		case <-w.looks:
			err = s.rescan(ctx, refused)
		case <-again.C:
		}
		if err != nil && ctx.Err() == nil {
			s.env.Logger.Warn("look after the source", "source", s.env.Name, "error", err)
		}
		if next := s.syncs.requestDue(time.Now()); !next.IsZero() {
			again.Reset(time.Until(next))
		}
		s.wake()
	}
}

func (s *Source) reportRetained(ctx context.Context) error {
	var bytes int64
	err := s.catalog.do(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::int8 FROM pg_replication_slots WHERE slot_name = $1",
			s.config.Slot).Scan(&bytes)
	})
	if err == nil {
		s.env.Report(connectors.Report{Retained: bytes})
	}
	return err
}

// rescan publishes tables that have appeared and match, and judges those that are known.
func (s *Source) rescan(ctx context.Context, refused map[uint32]string) error {
	if s.stream.Load() == nil {
		return nil // the snapshot has to be complete first
	}
	list, err := s.catalog.relations(ctx)
	if err != nil {
		return err
	}
	s.known.Lock()
	defer s.known.Unlock()
	var fresh []*relation
	for _, r := range list {
		if i := slices.IndexFunc(s.tables, func(t *tracked) bool { return t.oid == r.oid }); i >= 0 {
			s.tables[i].name = r.full()
			s.lookAt(r)
			continue
		}
		if problem, _ := r.problem(true); problem == "" {
			fresh = append(fresh, r)
		} else if refused[r.oid] != problem {
			refused[r.oid] = problem
			s.refuse(r)
		}
	}
	if len(fresh) > 0 {
		// Adding waits for who alters one of them, and the stream must not wait for the catalog's connection meanwhile.
		err := s.catalog.separate(ctx, func(conn *pgx.Conn) error {
			p, err := loadPublication(ctx, conn, s.config.Publication)
			if err != nil {
				return err
			}
			fresh = slices.DeleteFunc(fresh, p.splits)
			return addToPublication(ctx, conn, p, s.config.Publication, fresh)
		})
		if err != nil {
			return err
		}
	}
	for _, r := range fresh {
		shape, err := s.catalog.shapeOf(ctx, r)
		if err != nil {
			return err
		}
		t := &tracked{oid: r.oid, name: r.full(), relation: r, shape: shape, waits: true}
		s.tables = append(s.tables, t)
		s.env.Logger.Info("new table", "source", s.env.Name, "table", r.full())
		s.syncs.request(syncRequest{oid: r.oid, table: t})
	}
	return nil
}
