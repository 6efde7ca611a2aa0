// Package examples holds examples that run as they stand; its test runs each of them.
package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// example is a copy of an example's folder, with the program that runs it.
type example struct {
	t       *testing.T
	dir     string
	program string
}

func copyOf(t *testing.T, name, program string, flags ...string) *example {
	t.Helper()
	e := &example{t: t, dir: t.TempDir(), program: filepath.Join(t.TempDir(), "program")}
	if err := os.CopyFS(e.dir, os.DirFS(name)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", e.program, program})...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", program, err, out)
	}
	return e
}

// once runs the example to its end. Nothing listens on a port that another test may want.
func (e *example) once(environment ...string) {
	e.t.Helper()
	config, err := os.ReadFile(filepath.Join(e.dir, "pipelines.yaml"))
	if err != nil {
		e.t.Fatal(err)
	}
	if !strings.Contains(string(config), "http:") {
		quiet := strings.Replace(string(config), "log:\n", "log:\n  listen: off\n", 1) + "\nhttp:\n  listen: off\n"
		if err := os.WriteFile(filepath.Join(e.dir, "pipelines.yaml"), []byte(quiet), 0o600); err != nil {
			e.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.program, "run", "--once")
	cmd.Dir = e.dir
	cmd.Env = append(os.Environ(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("run --once: %v: %s", err, out)
	}
}

// lines returns the lines of all files that match, sorted.
func (e *example) lines(pattern string) []string {
	e.t.Helper()
	files, err := filepath.Glob(filepath.Join(e.dir, pattern))
	if err != nil {
		e.t.Fatal(err)
	}
	var lines []string
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			e.t.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimRight(string(text), "\n"), "\n")...)
	}
	slices.Sort(lines)
	return lines
}

// beside copies an example that reads the quickstart's shop; flags are those of go build.
func beside(t *testing.T, name string, flags ...string) *example {
	t.Helper()
	e := copyOf(t, name, "../cmd/trunkline", flags...)
	if err := os.CopyFS(filepath.Join(filepath.Dir(e.dir), "quickstart"), os.DirFS("quickstart")); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestQuickstart(t *testing.T) {
	t.Parallel()
	e := copyOf(t, "quickstart", "../cmd/trunkline")
	for range 2 {
		e.once()
		if got := e.lines("data/lines/shop.main.orders/*/*.jsonl"); len(got) != 5 {
			t.Fatalf("%d lines for 5 orders: %s", len(got), strings.Join(got, "\n"))
		}
		if got := e.lines("data/lines/shop.main.customers/*/*.jsonl"); len(got) != 4 {
			t.Fatalf("%d lines for 4 customers: %s", len(got), strings.Join(got, "\n"))
		}
	}
	rows := slices.DeleteFunc(e.lines("data/sheets/shop.main.orders/*/*.csv"), func(line string) bool { return strings.HasPrefix(line, "_op") })
	if len(rows) != 5 {
		t.Fatalf("%d rows of CSV for 5 orders: %s", len(rows), strings.Join(rows, "\n"))
	}
}

// TestFirstConfiguration runs the pipelines.yaml at the top of the repository.
func TestFirstConfiguration(t *testing.T) {
	t.Parallel()
	e := copyOf(t, "quickstart", "../cmd/trunkline")
	shop := filepath.Join(e.dir, "examples", "quickstart")
	if err := os.CopyFS(shop, os.DirFS("quickstart")); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("../pipelines.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), "listen: 127.0.0.1:8080", "listen: off", 1)
	text = strings.Replace(text, "log:\n", "log:\n  listen: off\n", 1)
	if err := os.WriteFile(filepath.Join(e.dir, "pipelines.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e.once()
	if got := e.lines("data/archive/*/*/*.jsonl"); len(got) != 9 {
		t.Errorf("%d lines for 9 rows: %s", len(got), strings.Join(got, "\n"))
	}
}

func TestCustomConnector(t *testing.T) {
	t.Parallel()
	e := copyOf(t, "custom-connector", "./custom-connector")
	for range 2 {
		e.once()
		got := e.lines("data/lines/count.numbers/*/*.jsonl")
		if len(got) != 20 {
			t.Fatalf("%d lines for 20 numbers: %s", len(got), strings.Join(got, "\n"))
		}
		if !strings.Contains(strings.Join(got, "\n"), `"after":{"n":20,"square":"400"}`) {
			t.Fatalf("no square of 20: %s", strings.Join(got, "\n"))
		}
	}
}

func TestPostgresToPostgres(t *testing.T) {
	t.Parallel()
	source, target := localserver.ForTest(t), localserver.ForTest(t)
	run := func(db *localserver.Database, sql string) string { return query(t, db, sql) }
	run(source, `CREATE TABLE orders (id int PRIMARY KEY, total numeric(12,2), at timestamptz); INSERT INTO orders VALUES (1, 1.10, '2026-01-30 12:00+05'), (2, 'NaN', 'infinity')`)
	e := copyOf(t, "postgres-to-postgres", "../cmd/trunkline")
	e.once("SHOP_DSN="+source.URL, "WAREHOUSE_DSN="+target.URL)
	run(source, `UPDATE orders SET total = 2.50 WHERE id = 1; DELETE FROM orders WHERE id = 2; INSERT INTO orders VALUES (3, NULL, NULL)`)
	e.once("SHOP_DSN="+source.URL, "WAREHOUSE_DSN="+target.URL)
	const all = `SELECT string_agg(o::text, ' ' ORDER BY id) FROM orders AS o`
	if want, got := run(source, all), run(target, all); got != want {
		t.Errorf("target %s, source %s", got, want)
	}
	if got := e.lines("data/archive/shop.public.orders/*/*.jsonl"); len(got) != 5 {
		t.Errorf("%d lines for 5 changes: %s", len(got), strings.Join(got, "\n"))
	}
}

// TestCompose runs the configuration of the containers between servers of this machine.
func TestCompose(t *testing.T) {
	t.Parallel()
	source, target := localserver.ForTest(t), localserver.ForTest(t)
	shop, err := os.ReadFile("compose/shop.sql")
	if err != nil {
		t.Fatal(err)
	}
	query(t, source, string(shop))
	e := copyOf(t, "compose", "../cmd/trunkline")
	text, err := os.ReadFile(filepath.Join(e.dir, "pipelines.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for name, db := range map[string]*localserver.Database{"shop": source, "warehouse": target} {
		single := regexp.MustCompile(`(?m)^    host: ` + name + `\n(    (user|password|database): .*\n)+`)
		if !single.MatchString(config) {
			t.Fatalf("no connection to %s in\n%s", name, config)
		}
		config = single.ReplaceAllString(config, "    dsn: \""+db.URL+"\"\n")
	}
	config = strings.Replace(config, "/var/lib/trunkline/log", filepath.Join(e.dir, "log"), 1)
	config = strings.Replace(config, "0.0.0.0:8080", "127.0.0.1:0", 1)
	config = strings.Replace(config, "mode: cdc", "mode: cdc\n    slot: compose_"+strings.ToLower(source.Name), 1)
	if err := os.WriteFile(filepath.Join(e.dir, "pipelines.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	e.once("TRUNKLINE_TOKEN=a-token-of-some-length")
	const all = `SELECT string_agg(o::text, ' ' ORDER BY id) FROM orders AS o`
	if want, got := query(t, source, all), query(t, target, all); got != want {
		t.Errorf("target %s, source %s", got, want)
	}
}

// query runs a statement, and returns the one text of a SELECT.
func query(t *testing.T, db *localserver.Database, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if !strings.HasPrefix(query, "SELECT") {
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
		return ""
	}
	var result string
	if err := conn.QueryRow(t.Context(), query).Scan(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestNightlyExtract(t *testing.T) {
	t.Parallel()
	source, target := localserver.ForTest(t), localserver.ForTest(t)
	query(t, source, `CREATE TABLE invoices (id int PRIMARY KEY, total numeric(12,2), updated_at timestamptz NOT NULL DEFAULT now());
		CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, currency text NOT NULL, amount numeric(12,2));
		INSERT INTO invoices VALUES (1, 1.10), (2, 2.20), (3, 3.30);
		INSERT INTO payments (currency, amount) VALUES ('EUR', 1), ('USD', 2), ('EUR', 3)`)
	e := copyOf(t, "nightly-extract", "../cmd/trunkline")
	night := func(mode string) {
		t.Helper()
		e.once("BILLING_DSN="+source.URL, "WAREHOUSE_DSN="+target.URL)
		for _, table := range []string{"invoices", "payments"} {
			all := "SELECT coalesce(string_agg(x::text, ' ' ORDER BY id), '') FROM " + table + " AS x"
			want := query(t, source, all)
			if got := query(t, target, all); got != want {
				t.Errorf("%s: target %s, source %s", mode, got, want)
			}
		}
	}
	night("the first night")
	query(t, source, `UPDATE invoices SET total = 9, updated_at = now() WHERE id = 1; INSERT INTO invoices VALUES (4, 4); INSERT INTO payments (currency, amount) VALUES ('EUR', 4)`)
	night("the second night")
	config, err := os.ReadFile(filepath.Join(e.dir, "pipelines.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(strings.Replace(string(config), "deletes: detect", "deletes: detect\n    deletes_every: 1ms", 1), "mode: timestamp", "mode: cdc", 1)
	if err := os.WriteFile(filepath.Join(e.dir, "pipelines.yaml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	query(t, source, `UPDATE invoices SET total = 10, updated_at = now() WHERE id = 2; INSERT INTO payments (currency, amount) VALUES ('EUR', 5)`)
	night("by logical replication")
	query(t, source, `DELETE FROM invoices WHERE id = 3`)
	night("a delete")
	if err := os.WriteFile(filepath.Join(e.dir, "pipelines.yaml"), []byte(strings.Replace(changed, "mode: cdc", "mode: timestamp", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	query(t, source, `INSERT INTO invoices VALUES (5, 5); DELETE FROM payments WHERE amount = 1`)
	night("by timestamp again")
	query(t, source, `DELETE FROM invoices WHERE id = 1`)
	night("a delete that is detected")
}

func TestMySQLToPostgres(t *testing.T) {
	t.Parallel()
	source, target := maria.ForTest(t), localserver.ForTest(t)
	db, err := source.Open(source.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	run(`CREATE TABLE orders (id bigint unsigned PRIMARY KEY, total decimal(12,2), at timestamp NULL, kind enum('new','paid'), wait time, tags set('a','b'))`,
		`INSERT INTO orders VALUES (18446744073709551615, 1.10, '2026-01-30 12:00:00', 'new', '-100:00:01', 'a,b'), (2, NULL, NULL, NULL, NULL, '')`)
	e := copyOf(t, "mysql-to-postgres", "../cmd/trunkline")
	environment := []string{"SHOP_DSN=" + source.URL, "SHOP_DB=" + source.Name, "WAREHOUSE_DSN=" + target.URL}
	e.once(environment...)
	run(`UPDATE orders SET kind = 'paid' WHERE total = 1.1`, `DELETE FROM orders WHERE id = 2`, `ALTER TABLE orders ADD note json`, `INSERT INTO orders VALUES (3, 5, NULL, 'new', '00:00:01', NULL, '{"a":1}')`)
	e.once(environment...)
	conn, err := pgx.Connect(t.Context(), target.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var got string
	err = conn.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', id, total, at AT TIME ZONE 'UTC', kind, wait, tags, note), ' | ' ORDER BY id) FROM shop.orders`).Scan(&got)
	if err != nil {
		t.Fatal(err)
	}
	if want := `3 5.00 new 00:00:01 {"a":1} | 18446744073709551615 1.10 2026-01-30 12:00:00 paid -100:00:01 a,b`; got != want {
		t.Errorf("target %s, want %s", got, want)
	}
	if got := e.lines("data/archive/shop." + source.Name + ".orders/*/*.jsonl"); len(got) != 5 {
		t.Errorf("%d lines for 5 changes: %s", len(got), strings.Join(got, "\n"))
	}
}

func TestTransforms(t *testing.T) {
	t.Parallel()
	e := copyOf(t, "transforms", "../cmd/trunkline")
	shop, err := filepath.Abs("quickstart/shop.db")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(e.dir, "shop.db")
	if text, err := os.ReadFile(shop); err != nil || os.WriteFile(copied, text, 0o600) != nil {
		t.Fatal(err)
	}
	trunkline := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), e.program, args...)
		cmd.Dir = e.dir
		cmd.Env = append(os.Environ(), "SHOP_DB="+copied)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("trunkline %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out := trunkline("test"); !strings.Contains(out, "3 passed, 0 failed") {
		t.Errorf("trunkline test: %s", out)
	}
	e.once("SHOP_DB=" + copied)
	got := strings.Join(e.lines("data/paid/shop.main.orders/*/*.jsonl"), "\n")
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, `"item":"kettle","status":"paid","euros":"29.99","vat":"5.70","customer":"Bjørn Baker"`) {
		t.Errorf("the paid orders are %s", got)
	}
	if out, err := exec.Command("grep", "-r", "-l", "example.com", filepath.Join(e.dir, "data")).CombinedOutput(); err == nil {
		t.Errorf("an address is in %s", out)
	}
	trunkline("check")
}
