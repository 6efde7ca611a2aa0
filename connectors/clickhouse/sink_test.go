package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors/clickhouse"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// TestSinkConformance runs alone, because it counts goroutines.
func TestSinkConformance(t *testing.T) {
	for _, server := range []*server{startOld(t), startNew(t)} {
		t.Run(server.name, func(t *testing.T) {
			conformance.RunSink(t, conformance.SinkCase{
				Wide: 200, Plain: true, Partial: true, Late: true,
				New: func(t *testing.T) conformance.SinkSystem {
					s := server.store(t)
					system := conformance.SinkSystem{Open: s.open(), Rows: s.rows}
					if server.modern {
						system.Refuse = func(*testing.T, *connectors.Table) {
							s.exec("ALTER TABLE SCHEMA.item ADD CONSTRAINT good CHECK ifNull(name, '') != 'bad'")
						}
					}
					return system
				},
				Shows: func(v connectors.Value) (string, bool) { return shows(server, v) },
			})
		})
	}
}

// shows is the server's text of a value.
func shows(s *server, v connectors.Value) (string, bool) {
	text := string(v.AppendText(nil))
	switch v.Kind() {
	case connectors.Bool:
		if !s.modern {
			return "1", true
		}
	case connectors.Timestamp, connectors.TimestampTZ:
		if s.modern {
			text = strings.NewReplacer("T", " ", "Z", "").Replace(text)
		}
	}
	return text, true
}

// value makes a value: a nil is NULL, a missing one absent.
func value(kind connectors.Kind, data string) connectors.Value {
	return connectors.DataValue(kind, []byte(data))
}

// typed is a table of what PostgreSQL and MySQL have most.
var typed = &connectors.Table{Schema: "shop", Name: "typed", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Type: "bigint", Kind: connectors.Int, NotNull: true},
	{Name: "price", Type: "numeric(12,2)", Kind: connectors.Decimal},
	{Name: "mass", Type: "decimal(38,18)", Kind: connectors.Decimal},
	{Name: "any", Type: "numeric", Kind: connectors.Decimal},
	{Name: "at", Type: "timestamp with time zone", Kind: connectors.TimestampTZ},
	{Name: "day", Type: "date", Kind: connectors.Date},
	{Name: "ratio", Type: "double precision", Kind: connectors.Float},
	{Name: "big", Type: "bigint unsigned", Kind: connectors.Uint},
	{Name: "tags", Type: "text[]", Kind: connectors.Array, Elem: connectors.Text, NotNull: true},
	{Name: "sizes", Type: "integer[]", Kind: connectors.Array, Elem: connectors.Int, NotNull: true},
	{Name: "ok", Type: "boolean", Kind: connectors.Bool},
	{Name: "raw", Type: "bytea", Kind: connectors.Bytes},
}}

func typedRow(id int64) []connectors.Value {
	return []connectors.Value{
		connectors.IntValue(id), value(connectors.Decimal, "-1234567890.10"), value(connectors.Decimal, "12345678901234567890.123456789012345678"),
		value(connectors.Decimal, "1E+40"), value(connectors.TimestampTZ, "2026-01-30T17:34:56.123456Z"), value(connectors.Date, "1931-05-07"),
		value(connectors.Float, "-1.7976931348623157e+308"), connectors.UintValue(1<<64 - 1), value(connectors.Array, `["a","b,\"c\"",null,""]`),
		value(connectors.Array, `[1648218655338,-1,null]`), connectors.BoolValue(true), value(connectors.Bytes, "\x00\xff"),
	}
}

func batch(first int64, changes ...connectors.Change) connectors.Batch {
	for i := range changes {
		if changes[i].Offset = first + int64(i); changes[i].Table == nil {
			changes[i].Table = typed
		}
	}
	return connectors.Batch{Stream: "shop.typed/0", Changes: changes, Position: strconv.AppendInt(nil, first+int64(len(changes)), 10)}
}

func insert(row []connectors.Value) connectors.Change {
	return connectors.Change{Op: connectors.Insert, After: row}
}

func remove(id int64) connectors.Change {
	before := make([]connectors.Value, len(typed.Columns))
	before[0] = connectors.IntValue(id)
	return connectors.Change{Op: connectors.Delete, Before: before}
}

const (
	allValues  = "SELECT arrayStringConcat([toString(price), toString(mass), any, toString(at), toString(day), toString(big), toJSONString(tags), toJSONString(sizes), toString(ok), hex(raw), hex(reinterpretAsUInt64(ratio))], ' ') FROM SCHEMA.typed FINAL WHERE id = 1"
	wantValues = `-1234567890.1 12345678901234567890.123456789012345678 1E+40 2026-01-30 17:34:56.123456 1931-05-07 18446744073709551615 ["a","b,\"c\"",null,""] [1648218655338,-1,null] true 00FF FFEFFFFFFFFFFFFF`
	wantTypes  = "Int64, Nullable(Decimal(12, 2)), Nullable(Decimal(38, 18)), Nullable(String), Nullable(DateTime64(6, 'UTC')), Nullable(Date32), Nullable(Float64), " +
		"Nullable(UInt64), Array(Nullable(String)), Array(Nullable(Int64)), Nullable(Bool), Nullable(String), UInt64, UInt8"
)

// TestTypesAndValuesOfANewServer compares in the server's own words, before and after an update that carries nothing but the key.
func TestTypesAndValuesOfANewServer(t *testing.T) {
	t.Parallel()
	s := startNew(t).store(t)
	sink := s.sink()
	s.must(sink.Write(t.Context(), batch(0, insert(typedRow(1)))))
	types := s.text("SELECT arrayStringConcat(groupArray(type), ', ') FROM (SELECT type FROM system.columns WHERE database = 'SCHEMA' AND table = 'typed' ORDER BY position)")
	if types != wantTypes {
		t.Errorf("types %s\nwant  %s", types, wantTypes)
	}
	for _, what := range []string{"an insert", "an update of nothing", "a move to another key and back"} {
		if got := strings.Replace(s.text(allValues), "\\/", "/", 1); got != wantValues {
			t.Errorf("after %s: %s\nwant %s", what, got, wantValues)
		}
		after := make([]connectors.Value, len(typed.Columns))
		after[0] = connectors.IntValue(1)
		c := connectors.Change{Op: connectors.Update, After: after}
		if what != "an insert" {
			away := connectors.Change{Op: connectors.Update, After: append([]connectors.Value{connectors.IntValue(2)}, after[1:]...), Before: after}
			s.must(sink.Write(t.Context(), batch(10, away)))
			c.Before = away.After
		}
		s.must(sink.Write(t.Context(), batch(20+int64(len(what)), c)))
	}
	if n := s.text("SELECT toString(count()) FROM SCHEMA.typed FINAL"); n != "1" {
		t.Errorf("%s visible rows, want 1", n)
	}
}

// TestReplaysAndLateWritesShowNothing writes a batch again, and an older one after a newer one.
func TestReplaysAndLateWritesShowNothing(t *testing.T) {
	t.Parallel()
	for _, server := range []*server{startOld(t), startNew(t)} {
		s := server.store(t)
		first := func() connectors.Batch {
			return batch(0, insert(typedRow(1)), insert(typedRow(2)), insert(typedRow(3)))
		}
		changed := typedRow(2)
		changed[1] = value(connectors.Decimal, "5.00")
		second := func() connectors.Batch { return batch(3, remove(1), insert(changed)) }
		for _, b := range []connectors.Batch{first(), second(), second(), first()} {
			s.must(s.sink().Write(t.Context(), b)) // each by a sink that has just connected
		}
		if server.modern {
			s.exec("OPTIMIZE TABLE SCHEMA.typed FINAL")
		}
		got := s.text("SELECT arrayStringConcat(groupArray(concat(toString(id), '=', toString(price))), ' ') FROM (SELECT id, price FROM SCHEMA.typed FINAL WHERE _deleted = 0 ORDER BY id)")
		if want := "2=5 3=-1234567890.1"; strings.NewReplacer("5.00", "5", ".10", ".1").Replace(got) != want {
			t.Errorf("%s: rows %s, want %s", server.name, got, want)
		}
		s.must(s.sink().Write(t.Context(), batch(0, insert(typedRow(1)))))
		if got := s.text("SELECT toString(count()) FROM SCHEMA.typed FINAL WHERE _deleted = 0"); got != "2" {
			t.Errorf("%s: %s rows after a late retry of a deleted one, want 2", server.name, got)
		}
	}
}

func TestValuesThatATypeDoesNotHoldAreRefusedByRow(t *testing.T) {
	t.Parallel()
	s := startNew(t).store(t)
	sink := s.sink()
	change := func(id int64, column int, v connectors.Value) connectors.Change {
		row := typedRow(id)
		row[column] = v
		return insert(row)
	}
	b := batch(0,
		insert(typedRow(1)), change(2, 1, value(connectors.Decimal, "NaN")), change(3, 1, value(connectors.Decimal, "1.001")),
		change(4, 1, value(connectors.Decimal, "12345678901")), change(5, 4, value(connectors.TimestampTZ, "infinity")),
		change(6, 5, value(connectors.Date, "0044-03-15 BC")), change(7, 5, value(connectors.Date, "1066-10-14")),
		change(8, 9, value(connectors.Array, `[[1],[2]]`)), change(9, 9, value(connectors.Array, `["x"]`)))
	var rows *connectors.RowsError
	err := sink.Write(t.Context(), b)
	if !errors.As(err, &rows) {
		t.Fatalf("write: %v, want refused rows", err)
	}
	for i, r := range rows.Rows {
		if r.Index != i+1 || !strings.Contains(r.Err.Error(), "column") || strings.Contains(r.Err.Error(), "1066") {
			t.Errorf("row %d: %v", r.Index, r.Err)
		}
	}
	if len(rows.Rows) != 8 {
		t.Errorf("%d rows refused, want 8: %v", len(rows.Rows), err)
	}
	// The same values fit where a person has made the column text.
	s.exec("ALTER TABLE SCHEMA.typed MODIFY COLUMN day Nullable(String)")
	s.must(s.sink().Write(t.Context(), batch(20, change(7, 5, value(connectors.Date, "1066-10-14")))))
	if got := s.text("SELECT assumeNotNull(day) FROM SCHEMA.typed FINAL WHERE id = 7"); got != "1066-10-14" {
		t.Errorf("day %s", got)
	}
}

func TestSchemaModes(t *testing.T) {
	t.Parallel()
	s := startOld(t).store(t)
	narrow := *typed
	narrow.Columns = typed.Columns[:3]
	for _, c := range []struct {
		mode  connectors.Follow
		table *connectors.Table
		want  string // of the error; empty: none
	}{
		{connectors.Freeze, &narrow, "CREATE TABLE IF NOT EXISTS"},
		{connectors.Ignore, &narrow, "CREATE TABLE IF NOT EXISTS"},
		{connectors.Lenient, &narrow, ""},
		{connectors.Lenient, typed, ""},
		{connectors.Ignore, typed, ""},
		{connectors.Freeze, typed, "ADD COLUMN `any`"},
		{connectors.Evolve, typed, ""},
		{connectors.Freeze, typed, ""},
	} {
		s.config.Schema = connectors.FollowAll(c.mode)
		err := s.sink().Migrate(t.Context(), connectors.Migration{To: c.table})
		if c.want == "" && err != nil || c.want != "" && (!isSchema(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %d columns: %v, want %q", c.mode, len(c.table.Columns), err, c.want)
		}
	}
}

// TestTablesThatWouldNotReplaceRowsAreRefused: a table with another engine or order would show a row twice.
func TestTablesThatWouldNotReplaceRowsAreRefused(t *testing.T) {
	t.Parallel()
	s := startOld(t).store(t)
	s.exec("CREATE DATABASE SCHEMA")
	for _, c := range []struct{ table, want string }{
		{"(id Int64) ENGINE = MergeTree ORDER BY id", "no column _version"},
		{"(id Int64, _version UInt64, _deleted UInt8) ENGINE = MergeTree ORDER BY id", "ReplacingMergeTree"},
		{"(id Int64, price Int64, _version UInt64, _deleted UInt8) ENGINE = ReplacingMergeTree(_version) ORDER BY (id, price)", "ORDER BY"},
	} {
		s.exec("CREATE TABLE SCHEMA.typed " + c.table)
		if err := s.sink().Migrate(t.Context(), connectors.Migration{To: typed}); !isSchema(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.table, err)
		}
		s.exec("DROP TABLE SCHEMA.typed")
	}
}

// TestServerThatDiesIsTriedAgain kills the server between and during writes.
func TestServerThatDiesIsTriedAgain(t *testing.T) {
	t.Parallel()
	server := startOld(t)
	s := server.store(t)
	sink := s.sink()
	for round := range int64(4) {
		var changes []connectors.Change
		for id := range int64(300) {
			row := typedRow(id)
			row[7] = connectors.UintValue(uint64(round))
			changes = append(changes, insert(row))
		}
		b := batch(round*300, changes...)
		written := make(chan error, 1)
		go func() { written <- sink.Write(context.WithoutCancel(t.Context()), b) }()
		if round%2 == 1 {
			server.Kill()
			<-written
			s.must(server.Run(t.Context()))
			s.must(sink.Write(t.Context(), b)) // the same sink connects again
		} else if err := <-written; err != nil {
			t.Fatal(err)
		}
		got := s.text("SELECT concat(toString(count()), ' ', toString(min(big)), ' ', toString(max(big))) FROM SCHEMA.typed FINAL")
		if want := fmt.Sprint("300 ", round, " ", round); got != want {
			t.Fatalf("round %d: %s, want %s", round, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	base := clickhouse.SinkConfig{Host: "x", Table: "{table}", Deletes: "apply", Schema: connectors.FollowAll(connectors.Evolve), Unrepresentable: "text"}
	for want, change := range map[string]func(*clickhouse.SinkConfig){
		"dsn is missing":     func(c *clickhouse.SinkConfig) { c.Host = "" },
		"dsn excludes":       func(c *clickhouse.SinkConfig) { c.DSN = "clickhouse://y" },
		"dsn is not":         func(c *clickhouse.SinkConfig) { c.Host, c.DSN = "", "clickhouse://%%" },
		"table must contain": func(c *clickhouse.SinkConfig) { c.Table = "all" },
		"deletes is not":     func(c *clickhouse.SinkConfig) { c.Deletes = "mark" },
		"write is not":       func(c *clickhouse.SinkConfig) { c.Write = "insert" },
		"deletes: apply":     func(c *clickhouse.SinkConfig) { c.Write = "append" },
		"schema is not":      func(c *clickhouse.SinkConfig) { c.Schema = connectors.FollowAll("strict") },
		"unrepresentable is": func(c *clickhouse.SinkConfig) { c.Unrepresentable = "round" },
		"tls is not":         func(c *clickhouse.SinkConfig) { c.TLS.TLS = "on" },
	} {
		c := base
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestCheckReportsTheDatabaseAndTheVersion(t *testing.T) {
	t.Parallel()
	s := startOld(t).store(t)
	s.config.DSN = fmt.Sprintf(s.dsn, "default")
	check, err := clickhouse.Connector().CheckSink(func(into any) error {
		c := into.(*clickhouse.SinkConfig)
		*c = s.config
		return c.Validate()
	})
	s.must(err)
	findings, err := check(t.Context(), connectors.NewEnv("analytics"))
	s.must(err)
	if len(findings) != 1 || findings[0].Subject != "version" || findings[0].Severity != connectors.Warning {
		t.Errorf("findings %+v", findings)
	}
}

func isSchema(err error) bool {
	var e *connectors.SchemaError
	return errors.As(err, &e)
}

// TestMigrationsAreFollowed drops, renames and retypes columns while rows are there, each step twice. Columns that take each other's names are left to a person.
func TestMigrationsAreFollowed(t *testing.T) {
	t.Parallel()
	s := startNew(t).store(t)
	sink := s.sink()
	column := func(id int, name, kind string, k connectors.Kind) connectors.Column {
		return connectors.Column{ID: id, Name: name, Type: kind, Kind: k}
	}
	version := func(columns ...connectors.Column) *connectors.Table {
		return &connectors.Table{Dialect: "postgres", ID: 7, Schema: "shop", Name: "typed", Key: []int{0}, Columns: columns}
	}
	id := column(1, "id", "bigint", connectors.Int)
	first := version(id, column(2, "a", "integer", connectors.Int), column(3, "b", "text", connectors.Text), column(4, "c", "text", connectors.Text))
	second := version(id, column(2, "amount", "text", connectors.Text), column(3, "b", "text", connectors.Text), column(5, "d", "text", connectors.Text))
	third := version(id, column(2, "b", "text", connectors.Text), column(3, "amount", "text", connectors.Text), column(5, "d", "text", connectors.Text))
	s.must(sink.Migrate(t.Context(), connectors.Migration{To: first}))
	c := insert([]connectors.Value{connectors.IntValue(1), connectors.IntValue(5), value(connectors.Text, "five"), value(connectors.Text, "gone")})
	c.Table = first
	s.must(sink.Write(t.Context(), batch(0, c)))
	for range 2 {
		s.must(sink.Migrate(t.Context(), connectors.Migration{From: first, To: second}))
	}
	if err := sink.Migrate(t.Context(), connectors.Migration{From: second, To: third}); !isSchema(err) {
		t.Errorf("two columns take each other's names: %v", err)
	}
	c = connectors.Change{Op: connectors.Update, Table: second, After: []connectors.Value{connectors.IntValue(1), {}, {}, value(connectors.Text, "new")}}
	s.must(sink.Write(t.Context(), batch(1, c)))
	if got := s.text("SELECT concat(assumeNotNull(amount), ' ', assumeNotNull(b), ' ', assumeNotNull(d)) FROM SCHEMA.typed FINAL"); got != "5 five new" {
		t.Errorf("row %s, want 5 five new", got)
	}
	if got := s.text("SELECT arrayStringConcat(groupArray(name), ' ') FROM (SELECT name FROM system.columns WHERE database = 'SCHEMA' AND table = 'typed' ORDER BY name)"); got != "_deleted _version amount b d id" {
		t.Errorf("columns %s", got)
	}
}
