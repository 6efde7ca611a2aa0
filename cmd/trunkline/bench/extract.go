package bench

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"
)

// extracted is a database whose table orders is read by its cursor.
type extracted struct {
	name   string
	source string // of pipelines.yaml
	topic  string
	// read times the plain driver, which makes Go values of what it reads, as a program would that reads a table.
	read func(ctx context.Context, query string, rows int) (sample, error)
	// touch gives every tenth row a cursor above all, and returns the query for just these rows.
	touch func(ctx context.Context, round int) (string, error)
}

// extract measures the first extract of a table, and one of the tenth of it that has changed since, each beside the
// driver that reads the same rows and drops them.
func extract(ctx context.Context, w *world) error {
	for _, open := range []func(context.Context) (*extracted, func(), error){w.extractPostgres, w.extractMaria, w.extractSQLite} {
		e, done, err := open(ctx)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		err = w.extractAll(ctx, e)
		if err == nil {
			err = w.extractChanged(ctx, e)
		}
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) extractAll(ctx context.Context, e *extracted) error {
	theirs := func() (sample, error) { return e.read(ctx, "SELECT * FROM orders", w.Rows) }
	ours := func() (sample, error) {
		dir, err := w.newDir("extract")
		if err != nil {
			return sample{}, err
		}
		defer os.RemoveAll(dir)
		config, err := w.configure(dir, e.source, "")
		if err != nil {
			return sample{}, err
		}
		return w.countedIn(ctx, e.topic, config, "run", "--once", "-f", config)
	}
	return w.pairs(result{what: e.name + " extract, all rows", peer: "driver's SELECT", aim: "0.65"}, ours, theirs)
}

func (w *world) extractChanged(ctx context.Context, e *extracted) error {
	dir, err := w.newDir("extract")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config, err := w.configure(dir, e.source, "")
	if err != nil {
		return err
	}
	if _, err := w.countedIn(ctx, e.topic, config, "run", "--once", "-f", config); err != nil {
		return err
	}
	round, n := 0, (w.Rows+9)/10
	theirs := func() (sample, error) {
		round++
		query, err := e.touch(ctx, round)
		if err != nil {
			return sample{}, fmt.Errorf("prepare the benchmark: %w", err)
		}
		return e.read(ctx, query, n)
	}
	ours := func() (sample, error) { return w.trunkline(ctx, n, "run", "--once", "-f", config) }
	if err := w.pairs(result{what: e.name + " extract, a tenth changed", peer: "driver's SELECT", aim: "–"}, ours, theirs); err != nil {
		return err
	}
	found, err := w.records(ctx, config, e.topic)
	if err == nil && found != w.Rows+w.Rounds*n {
		err = fmt.Errorf("the log holds %d records for %d versions of rows", found, w.Rows+w.Rounds*n)
	}
	return err
}

func (w *world) extractPostgres(ctx context.Context) (*extracted, func(), error) {
	if err := w.fill(ctx, "unused", transaction); err != nil {
		return nil, nil, err
	}
	if err := w.dropSlot(ctx, "unused"); err != nil {
		return nil, nil, err
	}
	if err := w.exec(ctx, "CREATE INDEX ON orders (updated_at, id)", "VACUUM ANALYZE orders"); err != nil {
		return nil, nil, err
	}
	return &extracted{
		name: "PostgreSQL", topic: "bench.public.orders",
		source: fmt.Sprintf("  bench:\n    type: postgres\n    dsn: %q\n    mode: timestamp\n    tables: [{name: public.orders, cursor: updated_at}]\n", w.server.DSN("bench")),
		read:   w.selectAll,
		touch: func(ctx context.Context, round int) (string, error) {
			at := fmt.Sprintf("timestamptz '2030-01-01' + %d * interval '1 day'", round)
			return "SELECT * FROM orders WHERE updated_at > " + at + " ORDER BY updated_at, id",
				w.exec(ctx, fmt.Sprintf("UPDATE orders SET updated_at = %s + id * interval '1 microsecond' WHERE id %% 10 = 1", at))
		},
	}, func() {}, nil
}

func (w *world) selectAll(ctx context.Context, query string, rows int) (sample, error) {
	start := time.Now()
	result, err := w.db.Query(ctx, query)
	if err != nil {
		return sample{}, fmt.Errorf("select: %w", err)
	}
	n := 0
	for result.Next() {
		if _, err := result.Values(); err != nil {
			return sample{}, fmt.Errorf("select: %w", err)
		}
		n++
	}
	if err := result.Err(); err != nil {
		return sample{}, fmt.Errorf("select: %w", err)
	}
	return timedRows(start, n, rows)
}

// selectFrom does the same through database/sql.
func selectFrom(ctx context.Context, db *sql.DB, query string, rows int) (sample, error) {
	start := time.Now()
	result, err := db.QueryContext(ctx, query)
	if err != nil {
		return sample{}, fmt.Errorf("select: %w", err)
	}
	defer result.Close()
	names, err := result.Columns()
	if err != nil {
		return sample{}, fmt.Errorf("select: %w", err)
	}
	values, targets := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	n := 0
	for result.Next() {
		if err := result.Scan(targets...); err != nil {
			return sample{}, fmt.Errorf("select: %w", err)
		}
		n++
	}
	if err := result.Err(); err != nil {
		return sample{}, fmt.Errorf("select: %w", err)
	}
	return timedRows(start, n, rows)
}

// timedRows is the sample of a reading, which has to have read all rows.
func timedRows(start time.Time, n, rows int) (sample, error) {
	if n != rows {
		return sample{}, fmt.Errorf("the driver read %d rows of %d", n, rows)
	}
	return sample{rows: n, wall: time.Since(start)}, nil
}
