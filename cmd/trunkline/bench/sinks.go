package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// How many rows a sink is measured with at most: enough to hide the start of the program, and few enough for ten stores, six
// times each, in minutes. The stand-in for OpenSearch takes some hundreds a second.
const (
	sinkRows   = 200_000
	searchRows = 5_000
)

// target is a store that is filled in two ways: by our sink from the log, and by the store's own way for many rows.
type target struct {
	name string // as in the configuration's type
	peer string // the store's own way
	most int    // rows
	open func(ctx context.Context, w *world, l *loaded) (*filled, error)
}

func targets() []target {
	return []target{
		{"postgres", "COPY", sinkRows, fillPostgres},
		{"mysql", "LOAD DATA", sinkRows, fillMaria},
		{"sqlite", "one transaction", sinkRows, fillSQLite},
		{"redis", "redis-cli --pipe", sinkRows, fillRedis},
		{"clickhouse", "INSERT of TSV by HTTP", sinkRows, fillClickHouse},
		{"file", "DuckDB's COPY TO", sinkRows, fillParquet},
		{"kafka", "franz-go, idempotent", sinkRows, fillKafka},
		{"http", "plain POST", sinkRows, fillWeb},
		{"exec", "cat", sinkRows, fillChild},
		{"elasticsearch", "plain _bulk", searchRows, fillSearch},
	}
}

// sinkBenchmarks are those of single sinks, which the benchmark sinks runs too.
func sinkBenchmarks() []benchmark {
	var list []benchmark
	for _, t := range targets() {
		list = append(list, benchmark{name: "sink-" + t.name, part: true, does: "the log into " + t.name + ", beside " + t.peer,
			run: func(ctx context.Context, w *world) error { return w.fillTargets(ctx, []target{t}) }})
	}
	return list
}

func sinks(ctx context.Context, w *world) error { return w.fillTargets(ctx, targets()) }

// filled is a store that is ready.
type filled struct {
	settings string                       // lines of the sink's configuration, each with four spaces before
	change   func(settings string) string // of each round; nil: they stay the same
	empty    func(ctx context.Context) error
	bulk     func(ctx context.Context) (sample, error) // fills it in the store's own way
	count    func(ctx context.Context) (int, error)    // rows that it holds, however they came
	close    func()
}

// errAbsent says that a store is not to be had on this machine.
var errAbsent = errors.New("it is not on this machine")

// loaded is the rows, ready to be put into a store: in a log, and in files.
type loaded struct {
	dir  string
	tsv  string // COPY's text form, times in UTC
	json string // a line with an object for each row
}

// load writes the rows into a log and into files.
func (w *world) load(ctx context.Context) (*loaded, error) {
	if err := w.fill(ctx, "sinks", transaction); err != nil {
		return nil, err
	}
	if err := w.dropSlot(ctx, "sinks"); err != nil {
		return nil, err
	}
	l, err := w.exported(ctx)
	if err != nil {
		return nil, err
	}
	config, err := w.configure(l.dir, w.cdcSource("sinks_only", "only"), "")
	if err != nil {
		return nil, err
	}
	if _, err := w.counted(ctx, config, "run", "--once", "-f", config); err != nil {
		return nil, err
	}
	return l, w.dropSlot(ctx, "sinks_only")
}

// exported writes the rows into files.
func (w *world) exported(ctx context.Context) (*loaded, error) {
	dir, err := w.newDir("sinks")
	if err != nil {
		return nil, err
	}
	l := &loaded{dir: dir, tsv: filepath.Join(dir, "orders.tsv"), json: filepath.Join(dir, "orders.jsonl")}
	const columns = "SELECT id, customer_id, status, amount, note, created_at AT TIME ZONE 'UTC' AS created_at, updated_at AT TIME ZONE 'UTC' AS updated_at FROM orders ORDER BY id"
	for path, query := range map[string]string{l.tsv: columns, l.json: "SELECT row_to_json(r) FROM (" + columns + ") AS r"} {
		if err := w.export(ctx, path, query); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (w *world) export(ctx context.Context, path, query string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := w.db.PgConn().CopyTo(ctx, file, "COPY ("+query+") TO STDOUT"); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	return nil
}

// fillTargets measures our sinks beside the bulk ways of their stores.
func (w *world) fillTargets(ctx context.Context, list []target) error {
	defer func(n int) { w.Rows = n }(w.Rows)
	asked := w.Rows
	var l *loaded
	defer func() { l.remove() }()
	for _, t := range list {
		if n := min(asked, t.most); l == nil || n != w.Rows {
			l.remove()
			w.Rows = n
			var err error
			if l, err = w.load(ctx); err != nil {
				return err
			}
		}
		f, err := t.open(ctx, w, l)
		if errors.Is(err, errAbsent) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			w.notes = append(w.notes, fmt.Sprintf("%s is left out: %v", t.name, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", t.name, err)
		}
		err = w.fillTarget(ctx, t, f, l)
		f.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *loaded) remove() {
	if l != nil {
		os.RemoveAll(l.dir)
	}
}

func (w *world) fillTarget(ctx context.Context, t target, f *filled, l *loaded) error {
	round := 0
	checked := func(way func() (sample, error)) func() (sample, error) {
		return func() (sample, error) {
			if err := f.empty(ctx); err != nil {
				return sample{}, fmt.Errorf("empty %s: %w", t.name, err)
			}
			s, err := way()
			if err != nil {
				return s, err
			}
			n, err := f.count(ctx)
			if err == nil && n != w.Rows {
				err = fmt.Errorf("%s holds %d rows of %d", t.name, n, w.Rows)
			}
			return s, err
		}
	}
	ours := func() (sample, error) {
		round++
		settings := f.settings
		if f.change != nil {
			settings = f.change(settings)
		}
		sink := fmt.Sprintf("  target:\n    type: %s\n    topics: [bench.public.orders]\n    group: %s%d\n%s", t.name, t.name, round, settings)
		config, err := w.configure(l.dir, "", sink)
		if err != nil {
			return sample{}, err
		}
		return w.trunkline(ctx, w.Rows, "run", "--once", "-f", config)
	}
	return w.pairs(result{what: "log into " + t.name, peer: t.peer, aim: "–"}, checked(ours), checked(func() (sample, error) { return f.bulk(ctx) }))
}

// took is the sample of what has just ended.
func (w *world) took(since time.Time) sample { return sample{rows: w.Rows, wall: time.Since(since)} }
