package endtoend

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// evolving is a source whose tables change their shape and their rows at random.
type evolving struct {
	t      *testing.T
	rng    *rand.Rand
	seed   uint64
	source evolver
	target evolver
	line   *line
	tables []string
	trace  []string
	slow   time.Duration // the longest that a quiet point took

	// touched has the columns, as table and name, that were changed since the last quiet point, and the tables of which one was.
	// A source that was away may see two changes of one column at once, and no row of what it was in between: what the second
	// makes of the first's values is then in nothing that it can read. PostgreSQL's stream does not say which column is which
	// either, so of its tables each has one change between two quiet points.
	touched map[string]bool
}

// evolver is one of the two databases, as the test speaks to it.
type evolver interface {
	try(statement string) error
	columns(table string) []evolvingColumn
	// content returns the columns with their types, and the rows with these columns; nil while there is none.
	content(table string, columns []evolvingColumn) []string
	quote(name string) string
	words() *evolvingWords
	sessions() []string // what the server's sessions do and wait for
}

type evolvingColumn struct {
	name, typ string
	key       bool
}

// evolvingWords are what two databases write in different ways.
type evolvingWords struct {
	types  []string
	retype map[string][]string // what a type can become
	alter  func(column, typ string) string
	place  bool // columns can be added in front of others
	single bool // a table has one change between two quiet points
	inTx   bool // DDL can be part of a transaction
	full   string
}

var evolvingNames = []string{"a", "b", "c", "Ünï", "select", "x y", "d", "q't"}

func (e *evolving) say(statement string) error {
	e.trace = append(e.trace, statement)
	err := e.source.try(statement)
	if err != nil {
		e.trace[len(e.trace)-1] += " -- refused"
	}
	return err
}

func (e *evolving) must(statement string) {
	e.t.Helper()
	if err := e.say(statement); err != nil {
		e.t.Fatalf("seed %d: %s: %v", e.seed, statement, err)
	}
}

// value returns a literal of a type.
func (e *evolving) value(typ string) string {
	n := e.rng.IntN(1000)
	switch {
	case e.rng.IntN(8) == 0:
		return "NULL"
	case strings.HasPrefix(typ, "tinyint"):
		return strconv.Itoa(n % 2)
	case strings.Contains(typ, "int"):
		return strconv.Itoa(n - 500)
	case strings.HasPrefix(typ, "numeric"), strings.HasPrefix(typ, "decimal"):
		return fmt.Sprintf("%d.%02d", n-500, n%100)
	case strings.HasPrefix(typ, "bool"):
		return strconv.FormatBool(n%2 == 0)
	case strings.HasPrefix(typ, "date") && !strings.HasPrefix(typ, "datetime"):
		return fmt.Sprintf("'2026-%02d-%02d'", 1+n%12, 1+n%28)
	case strings.HasPrefix(typ, "datetime"), strings.HasPrefix(typ, "timestamp"):
		return fmt.Sprintf("'2026-%02d-%02d 12:34:56.%06d'", 1+n%12, 1+n%28, n)
	}
	return []string{"''", "'" + strconv.Itoa(n) + "'", "'ä " + strconv.Itoa(n) + "'", "'it''s'", "'NULL'"}[n%5]
}

func (e *evolving) key(typ string) string {
	if strings.Contains(typ, "int") || strings.HasPrefix(typ, "numeric") || strings.HasPrefix(typ, "decimal") {
		return strconv.Itoa(e.rng.IntN(60))
	}
	return "'" + strconv.Itoa(e.rng.IntN(60)) + "'"
}

// insert is a statement that adds a row.
func (e *evolving) insert(table string, columns []evolvingColumn) string {
	var names, values []string
	for _, c := range columns {
		names = append(names, e.source.quote(c.name))
		if c.key {
			values = append(values, e.key(c.typ))
		} else {
			values = append(values, e.value(c.typ))
		}
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

// row is a statement that changes rows.
func (e *evolving) row(table string) string {
	columns := e.source.columns(table)
	some := columns[e.rng.IntN(len(columns))]
	where := " WHERE " + e.source.quote(columns[0].name) + " = " + e.key(columns[0].typ)
	switch n := e.rng.IntN(20); {
	case n < 10:
		return e.insert(table, columns)
	case n < 15 && !some.key:
		return "UPDATE " + table + " SET " + e.source.quote(some.name) + " = " + e.value(some.typ) + where
	case n < 16 && some.key:
		return "UPDATE " + table + " SET " + e.source.quote(some.name) + " = " + e.key(some.typ) + where
	case n < 19:
		return "DELETE FROM " + table + where
	case e.rng.IntN(8) == 0:
		return "TRUNCATE TABLE " + table
	}
	return e.insert(table, columns)
}

// shape is a statement that changes columns.
func (e *evolving) shape(table string) string {
	words, columns := e.source.words(), e.source.columns(table)
	c := columns[e.rng.IntN(len(columns))]
	q := e.source.quote
	name := evolvingNames[e.rng.IntN(len(evolvingNames))] + []string{"", "2"}[e.rng.IntN(2)]
	fresh := q(name)
	alter := "ALTER TABLE " + table + " "
	kind := e.rng.IntN(5)
	if e.touched[table+"."+c.name] || e.touched[table+"."+name] || words.single && e.touched[table] {
		return e.insert(table, columns)
	}
	e.touched[table], e.touched[table+"."+c.name], e.touched[table+"."+name] = true, true, true
	switch kind {
	case 0:
		add := alter + "ADD COLUMN " + fresh + " " + words.types[e.rng.IntN(len(words.types))]
		if words.place && e.rng.IntN(2) == 0 {
			add += " AFTER " + q(c.name)
		}
		return add
	case 1:
		if !c.key && len(columns) > 3 {
			return alter + "DROP COLUMN " + q(c.name)
		}
	case 2, 3:
		return alter + "RENAME COLUMN " + q(c.name) + " TO " + fresh
	}
	for typ, list := range words.retype {
		if strings.HasPrefix(c.typ, typ) {
			return alter + words.alter(q(c.name), list[e.rng.IntN(len(list))])
		}
	}
	return alter + "ADD COLUMN " + fresh + " " + words.types[0]
}

// transaction makes a few changes at once.
func (e *evolving) transaction() {
	words := e.source.words()
	table := e.tables[e.rng.IntN(len(e.tables))]
	if e.rng.IntN(6) == 0 && !words.inTx {
		e.say(e.shape(table))
		return
	}
	e.must("BEGIN")
	for range 1 + e.rng.IntN(4) {
		statement := e.row(table)
		if words.inTx && e.rng.IntN(8) == 0 {
			statement = e.shape(table)
		}
		if !words.inTx && strings.HasPrefix(statement, "TRUNCATE") {
			continue
		}
		if err := e.say(statement); err != nil {
			e.must("ROLLBACK")
			return
		}
		if e.rng.IntN(4) == 0 {
			table = e.tables[e.rng.IntN(len(e.tables))]
		}
	}
	if e.rng.IntN(10) == 0 {
		e.must("ROLLBACK")
		return
	}
	e.must("COMMIT")
}

// quiet adds a row to each table, because a source may learn of a version only with its rows, and waits until source and
// target are equal.
func (e *evolving) quiet(round int) {
	e.t.Helper()
	e.touched = map[string]bool{}
	for _, table := range e.tables {
		columns := e.source.columns(table)
		var err error
		for try := 0; try == 0 || err != nil; try++ { // a key may be there already
			if try == 150 { // all of them are, after many rounds
				e.must("DELETE FROM " + table)
			}
			if err = e.say(e.insert(table, columns)); err != nil && try == 300 {
				e.t.Fatalf("seed %d, round %d: no row can be added to table %s: %v", e.seed, round, table, err)
			}
		}
	}
	for _, table := range e.tables {
		columns := e.source.columns(table)
		slices.SortFunc(columns, func(a, b evolvingColumn) int { return strings.Compare(a.name, b.name) })
		want := e.source.content(table, columns)
		begun := time.Now()
		for {
			got := e.target.content(table, columns)
			if slices.Equal(want, got) {
				break
			}
			if time.Since(begun) > patience {
				e.explain()
				e.t.Fatalf("seed %d, round %d, table %s: %d rows in the source, %d in the target; first difference: %s; the last statements:\n%s", e.seed, round, table,
					len(want), len(got), firstDifference(want, got), strings.Join(e.trace[max(0, len(e.trace)-200):], ";\n"))
			}
			time.Sleep(50 * time.Millisecond)
		}
		e.slow = max(e.slow, time.Since(begun))
	}
}

// explain logs what the daemon and both servers are at, where nothing goes on.
func (e *evolving) explain() {
	e.t.Helper()
	for _, path := range []string{"/api/status", "/debug/pprof/goroutine?debug=2"} {
		client := http.Client{Timeout: 10 * time.Second}
		answer, err := client.Get("http://" + e.line.http + path)
		if err != nil {
			e.t.Log(err)
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		e.t.Logf("%s: %v\n%s", path, err, text)
	}
	e.t.Logf("sessions of the source:\n%s\nsessions of the target:\n%s", strings.Join(e.source.sessions(), "\n"), strings.Join(e.target.sessions(), "\n"))
}

// evolve runs rounds of changes with kill -9 among them.
func (e *evolving) evolve(l *line) {
	e.line = l
	seed, err := strconv.ParseUint(os.Getenv("TRUNKLINE_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1 << 32)
	}
	e.seed, e.rng = seed, rand.New(rand.NewPCG(seed, 0))
	e.t.Logf("seed %d: TRUNKLINE_SEED=%d makes the same statements", seed, seed)
	end, rounds := time.Now(), 10
	if soak, err := time.ParseDuration(os.Getenv("TRUNKLINE_SOAK")); err == nil {
		end, rounds = end.Add(soak), 1
	}
	e.create()
	l.start()
	e.quiet(0) // a first snapshot has its own tests
	for round := 1; round <= rounds || time.Now().Before(end); round++ {
		for range 20 {
			e.transaction()
			if e.rng.IntN(20) == 0 {
				l.kill()
				if e.rng.IntN(2) == 0 {
					e.transaction()
				}
				l.start()
			}
		}
		e.quiet(round)
	}
	if code := l.stop(); code != 0 {
		e.t.Errorf("seed %d: the drain ended with %d", e.seed, code)
	}
	shapes := 0
	for _, statement := range e.trace {
		if strings.HasPrefix(statement, "ALTER") && !strings.HasSuffix(statement, "refused") {
			shapes++
		}
	}
	e.t.Logf("%d statements, %d of them changed a table; the slowest quiet point came after %s", len(e.trace), shapes, e.slow.Round(time.Millisecond))
	if shapes == 0 {
		e.t.Errorf("seed %d: no statement changed a table", e.seed)
	}
}

func (e *evolving) create() {
	words := e.source.words()
	e.tables = []string{"one", "two", "loose"}
	e.must("CREATE TABLE one (id " + words.types[0] + " PRIMARY KEY, a " + words.types[1] + ", b " + words.types[2] + ")")
	e.must("CREATE TABLE two (id " + words.types[0] + ", k varchar(20), a " + words.types[1] + ", PRIMARY KEY (id, k))")
	e.must("CREATE TABLE loose (id " + words.types[0] + ", a " + words.types[1] + ", b " + words.types[2] + ")")
	if words.full != "" {
		e.must("ALTER TABLE loose " + words.full)
	}
	for range 20 {
		for _, table := range e.tables {
			e.say(e.insert(table, e.source.columns(table)))
		}
	}
}

// postgresEvolver is a PostgreSQL.
type postgresEvolver struct{ *database }

func (d postgresEvolver) try(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := d.conn.Exec(ctx, statement)
	return err
}

func (d postgresEvolver) quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func (d postgresEvolver) words() *evolvingWords {
	return &evolvingWords{
		types: []string{"integer", "text", "numeric(12,2)", "boolean", "date", "timestamp", "varchar(40)", "bigint"},
		retype: map[string][]string{"integer": {"bigint", "text", "numeric(12,2)"}, "bigint": {"text", "numeric(14,2)"}, "character varying": {"text"}, "date": {"timestamp", "text"},
			"numeric": {"text"}, "boolean": {"text"}, "text": {"varchar(60)"}},
		alter: func(column, typ string) string { return "ALTER COLUMN " + column + " TYPE " + typ },
		inTx:  true, single: true, full: "REPLICA IDENTITY FULL",
	}
}

func (d postgresEvolver) sessions() []string {
	return append(d.list(`SELECT concat_ws(' | ', pid, backend_type, application_name, state, wait_event_type, wait_event, now() - xact_start, 'blocked by ' || pg_blocking_pids(pid)::text, left(query, 200))
		FROM pg_stat_activity WHERE datname = current_database() ORDER BY 1`),
		d.list("SELECT s::text FROM pg_replication_slots s WHERE database = current_database()")...)
}

func (d postgresEvolver) columns(table string) []evolvingColumn {
	var out []evolvingColumn
	for _, line := range d.list(`SELECT a.attname || chr(1) || format_type(atttypid, atttypmod) || chr(1) || coalesce(a.attnum = ANY(i.indkey), false)
		FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
		WHERE attrelid = to_regclass('public.` + table + `') AND attnum > 0 AND NOT attisdropped ORDER BY attnum`) {
		parts := strings.Split(line, "\x01")
		out = append(out, evolvingColumn{parts[0], parts[1], parts[2] == "true"})
	}
	return out
}

func (d postgresEvolver) content(table string, columns []evolvingColumn) []string {
	have := d.columns(table)
	if len(have) == 0 {
		return nil
	}
	slices.SortFunc(have, func(a, b evolvingColumn) int { return strings.Compare(a.name, b.name) })
	var out, names []string
	for _, c := range have {
		out = append(out, c.name+" "+c.typ)
	}
	for _, c := range columns {
		names = append(names, d.quote(c.name)+"::text")
	}
	return append(out, d.list("SELECT row("+strings.Join(names, ", ")+")::text FROM "+table+" ORDER BY 1")...)
}

func TestPostgresEvolvesAtRandom(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("SET lock_timeout = '30s'") // what waits for longer is refused, as a random statement may be
	e := &evolving{t: t, source: postgresEvolver{source}, target: postgresEvolver{target}}
	e.evolve(newLine(t, postgresSource(source, "shop", "tables: [public.*]"), postgresSink(target, "replica")))
}

// mariaEvolver is a MariaDB.
type mariaEvolver struct{ *mariaDatabase }

func (d mariaEvolver) try(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := d.pool.ExecContext(ctx, statement)
	return err
}

func (d mariaEvolver) quote(name string) string { return "`" + name + "`" }

func (d mariaEvolver) words() *evolvingWords {
	return &evolvingWords{
		types: []string{"int(11)", "text", "decimal(12,2)", "tinyint(1)", "date", "datetime(6)", "varchar(40)", "bigint(20)"},
		retype: map[string][]string{"int": {"bigint(20)", "varchar(40)", "decimal(12,2)"}, "bigint": {"varchar(40)", "decimal(14,2)"}, "varchar": {"varchar(60)", "varchar(80)"},
			"date(": {"datetime(6)"}, "decimal": {"varchar(30)"}, "tinyint": {"int(11)"}},
		alter: func(column, typ string) string { return "MODIFY COLUMN " + column + " " + typ },
		place: true,
	}
}

func (d mariaEvolver) sessions() []string {
	return d.list("SELECT CONCAT_WS(' | ', ID, COMMAND, TIME_MS, STATE, LEFT(INFO, 200)) FROM information_schema.PROCESSLIST")
}

func (d mariaEvolver) columns(table string) []evolvingColumn {
	var out []evolvingColumn
	for _, line := range d.list("SELECT CONCAT_WS('\x01', COLUMN_NAME, COLUMN_TYPE, COLUMN_KEY = 'PRI') FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '" + d.Name + "' AND TABLE_NAME = '" + table + "' ORDER BY ORDINAL_POSITION") {
		parts := strings.Split(line, "\x01")
		out = append(out, evolvingColumn{parts[0], parts[1], parts[2] == "1"})
	}
	return out
}

func (d mariaEvolver) content(table string, columns []evolvingColumn) []string {
	have := d.columns(table)
	if len(have) == 0 {
		return nil
	}
	slices.SortFunc(have, func(a, b evolvingColumn) int { return strings.Compare(a.name, b.name) })
	var out, names []string
	for _, c := range have {
		out = append(out, c.name+" "+c.typ)
	}
	for _, c := range columns {
		names = append(names, "COALESCE(QUOTE("+d.quote(c.name)+"), '-')")
	}
	rows := d.list("SELECT CONCAT_WS('|', " + strings.Join(names, ", ") + ") FROM " + table)
	slices.Sort(rows)
	return append(out, rows...)
}

func TestMariaDBEvolvesAtRandom(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.pool.SetMaxOpenConns(1)
	source.exec("SET SESSION lock_wait_timeout = 30")
	e := &evolving{t: t, source: mariaEvolver{source}, target: mariaEvolver{target}}
	e.evolve(newLine(t, source.source("shop"), target.sink("replica")))
}
