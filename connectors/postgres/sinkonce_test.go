package postgres

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// fuse is a connection that breaks at its n-th write or read: what was written before has reached the server, an answer
// that was not read yet is lost.
type fuse struct {
	net.Conn
	left   *int
	writes bool
}

var errFuse = errors.New("fuse blown")

func (f fuse) burn() error {
	if *f.left--; *f.left <= 0 {
		f.Conn.Close()
		return errFuse
	}
	return nil
}

func (f fuse) Write(b []byte) (int, error) {
	if f.writes {
		if err := f.burn(); err != nil {
			return 0, err
		}
	}
	return f.Conn.Write(b)
}

func (f fuse) Read(b []byte) (int, error) {
	if !f.writes {
		if err := f.burn(); err != nil {
			return 0, err
		}
	}
	return f.Conn.Read(b)
}

// TestSinkWritesOnceWhereverTheConnectionBreaks breaks the connection at each of its writes and reads in turn. The
// table has no key, so that a row that is written twice is there twice.
func TestSinkWritesOnceWhereverTheConnectionBreaks(t *testing.T) {
	const batches = 8
	for _, writes := range []bool{true, false} {
		name := map[bool]string{true: "on a write", false: "on a read"}[writes]
		t.Run(name, func(t *testing.T) {
			st := newSinkTest(t)
			loose, keyed := tableOf("loose", 0, "n integer"), tableOf("keyed", 1, "id integer", "n integer")
			breaks, done := 0, 0
			for at := 1; done < batches; at++ {
				done = st.runWithFuse(at, writes, batches, loose, keyed)
				if done < batches {
					breaks++
				}
			}
			if breaks < 3 {
				t.Fatalf("the connection broke %d times only", breaks)
			}
			st.want("SELECT count(*), count(DISTINCT n), min(n), max(n) FROM loose", "8|8|0|7")
			st.want("SELECT id, n FROM keyed ORDER BY id", "1|7\n2|8")
		})
	}
}

// runWithFuse opens a sink whose connection breaks, goes on where the last one ended, and returns how many batches are
// stored in the end.
func (t *sinkTest) runWithFuse(at int, writes bool, batches int, tables ...*connectors.Table) (done int) {
	t.Helper()
	ctx := t.Context()
	config := DefaultSinkConfig()
	config.DSN = t.url
	base, err := config.address().config()
	if err != nil {
		t.Fatal(err)
	}
	left := 1 << 30
	dial := base.DialFunc
	base.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return fuse{c, &left, writes}, err
	}
	conn, err := pgx.ConnectConfig(ctx, base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(ctx, sinkSession).ReadAll(); err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	stored := func() int {
		if t.query("SELECT to_regclass('_trunkline_offsets') IS NULL") == "t" {
			return 0
		}
		n, _ := strconv.Atoi(t.query("SELECT convert_from(position, 'UTF8') FROM _trunkline_offsets"))
		return n
	}
	if done = stored(); done == batches {
		return done
	}
	left = at
	s, err := newSinkOn(ctx, conn, config, connectors.NewEnv("test"))
	if err != nil {
		return done
	}
	for _, table := range tables {
		if err := s.Migrate(ctx, connectors.Migration{From: nil, To: table}); err != nil {
			return stored()
		}
	}
	if _, err := s.Committed(ctx, "shop.public.t/0"); err != nil {
		return stored()
	}
	for n := stored(); n < batches; n++ {
		b := connectors.Batch{Stream: "shop.public.t/0", Position: strconv.AppendInt(nil, int64(n+1), 10), Changes: []connectors.Change{
			inserted(tables[0], n), updated(tables[1], 1+n%2, n), deleted(tables[1], 1+n%2), inserted(tables[1], 1+n%2, n+1)}}
		if err := s.Write(ctx, b); err != nil {
			if errors.Is(err, connectors.ErrFenced) {
				t.Fatal(err)
			}
			break
		}
	}
	return stored()
}

// TestSinkWritersTakeOver lets several writers of one group take the stream from each other without end.
func TestSinkWritersTakeOver(t *testing.T) {
	const writers, batches = 3, 60
	st := newSinkTest(t)
	table := tableOf("loose", 0, "n integer")
	st.migrate(st.open(nil), nil, table)
	failures := make(chan error, writers)
	for range writers {
		s := st.open(nil)
		go func() { failures <- takeOver(t.Context(), s, table, batches) }()
	}
	for range writers {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	st.want("SELECT count(*), count(DISTINCT n), min(n), max(n) FROM loose", "60|60|0|59")
}

// takeOver claims the stream, writes up to three batches, and claims it again, until all batches are written.
func takeOver(ctx context.Context, s *Sink, table *connectors.Table, batches int) error {
	for {
		p, err := s.Committed(ctx, "shop.public.t/0")
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(p))
		for range 3 {
			if n == batches {
				return nil
			}
			err := s.Write(ctx, connectors.Batch{Stream: "shop.public.t/0", Position: strconv.AppendInt(nil, int64(n+1), 10),
				Changes: []connectors.Change{inserted(table, n)}})
			if errors.Is(err, connectors.ErrFenced) {
				break
			}
			if err != nil {
				return err
			}
			n++
		}
	}
}
