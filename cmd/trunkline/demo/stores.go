package demo

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// partitions of each topic.
const partitions = 4

// store is one derived store and the sink that fills it.
type store struct {
	name string
	what string
	sink string // its entry under sinks: in the configuration
}

func (w *world) stores() []store {
	stores := []store{
		{"warehouse", "SQLite, every table of every shop, exactly once", fmt.Sprintf(`  warehouse:
    type: sqlite
    path: %q
    table: "{table}"
    topics: ["*"]
`, w.warehousePath())},
		{"archive", "JSON lines, every change ever made, one line each", fmt.Sprintf(`  archive:
    type: file
    path: %q
    format: jsonl
    topics: ["*"]
    batch: {wait: 1s}
`, w.archivePath())},
	}
	if w.server != nil {
		stores = append(stores, store{"replica", "PostgreSQL, the shop lima again, exactly once", fmt.Sprintf(`  replica:
    type: postgres
    dsn: %q
    topics: ["lima.*"]
`, w.server.DSN("replica"))})
	}
	return stores
}

func (w *world) warehousePath() string { return filepath.Join(w.Dir, "warehouse.db") }
func (w *world) archivePath() string   { return filepath.Join(w.Dir, "archive") }

func (w *world) writeConfig() (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "# What trunkline demo runs: several databases, one log, several stores.\nlog:\n  dir: %q\n  listen: off\n  topics: {partitions: %d}\nhttp:\n  listen: %s\nsources:\n",
		filepath.Join(w.Dir, "log"), partitions, w.HTTP)
	for _, s := range w.shops {
		text.WriteString(s.source())
	}
	text.WriteString("sinks:\n")
	for _, s := range w.stores() {
		text.WriteString(s.sink)
	}
	path := filepath.Join(w.Dir, "pipelines.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write the demo's configuration: %w", err)
	}
	return path, nil
}

// comparison is one table of one shop beside its copy in one store.
type comparison struct {
	table  string
	store  string
	rows   int
	differ string // empty: equal; else what differs first
}

// compareUntilEqual compares everything again and again until all is equal. When the time is over it returns what
// differed last.
func (w *world) compareUntilEqual(ctx context.Context) ([]comparison, error) {
	for {
		list, err := w.compare(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(c comparison) bool { return c.differ != "" }) {
			return list, nil
		}
		select {
		case <-ctx.Done():
			return list, nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// compare holds every table of every shop against its copies.
func (w *world) compare(ctx context.Context) ([]comparison, error) {
	warehouse := openSQLite(w.warehousePath())
	defer warehouse.Close()
	var replica *sql.DB
	if w.server != nil {
		var err error
		if replica, err = openPostgres(w.server.DSN("replica")); err != nil {
			return nil, err
		}
		defer replica.Close()
	}
	archive, err := readArchive(w.archivePath())
	if err != nil {
		return nil, err
	}
	var list []comparison
	for _, s := range w.shops {
		for _, table := range s.tables() {
			c, err := compareTable(table, "warehouse", s.rows(ctx, table), queryRows(ctx, warehouse, warehouseQuery(table)))
			if err != nil {
				return nil, err
			}
			list = append(list, c)
			if c, err = archive.compare(table, s.rows(ctx, table)); err != nil {
				return nil, err
			}
			list = append(list, c)
			if _, ok := s.(*postgresShop); ok {
				c, err := compareTable(table, "replica", s.rows(ctx, table), queryRows(ctx, replica, postgresQueries[table]))
				if err != nil {
					return nil, err
				}
				list = append(list, c)
			}
		}
	}
	return list, nil
}

func warehouseQuery(table string) string { return `SELECT * FROM "` + table + `" ORDER BY id` }

// compareTable walks both sides in key order.
func compareTable(table, store string, source, target iter.Seq2[string, error]) (comparison, error) {
	c := comparison{table: table, store: store}
	next, stop := iter.Pull2(target)
	defer stop()
	for want, err := range source {
		if err != nil {
			return c, err
		}
		c.rows++
		got, err, ok := next()
		if err != nil {
			c.differ = err.Error()
			return c, nil
		}
		if !ok {
			c.differ = fmt.Sprintf("row %d is missing", c.rows)
			return c, nil
		}
		if got != want {
			c.differ = fmt.Sprintf("row %d is %s instead of %s", c.rows, got, want)
			return c, nil
		}
	}
	if got, err, ok := next(); err != nil {
		c.differ = err.Error()
	} else if ok {
		c.differ = "one row too many: " + got
	}
	return c, nil
}

// summarize prints the table of comparisons. Any difference is an error.
func (w *world) summarize(list []comparison) error {
	var out bytes.Buffer
	stores := w.stores()
	fmt.Fprintf(&out, "  %-18s %10s", "table", "rows")
	for _, s := range stores {
		fmt.Fprintf(&out, "  %-10s", s.name)
	}
	out.WriteByte('\n')
	var wrong []string
	rows := 0
	for i, c := range list {
		if i == 0 || list[i-1].table != c.table {
			if i > 0 {
				out.WriteByte('\n')
			}
			fmt.Fprintf(&out, "  %-18s %10s", c.table, number(int64(c.rows)))
			rows += c.rows
		}
		word := "equal"
		if c.differ != "" {
			word = "DIFFERS"
			wrong = append(wrong, fmt.Sprintf("%s in %s: %s", c.table, c.store, c.differ))
		}
		fmt.Fprintf(&out, "  %-10s", word)
	}
	fmt.Fprintf(&out, "\n\n")
	if _, err := w.Out.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the stores differ from the shops: %s", strings.Join(wrong, "; "))
	}
	killed := ""
	if w.kills > 0 {
		killed = " and one kill -9"
	}
	fmt.Fprintf(w.Out, "All %s rows stand in every store as they stand in their shop, after %s changes%s.\n", number(int64(rows)), number(w.changes()), killed)
	if w.keep {
		fmt.Fprintf(w.Out, "Everything is kept in %s.\n", w.Dir)
	}
	return nil
}
