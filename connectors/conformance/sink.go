package conformance

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
)

// SinkSystem is an empty store.
type SinkSystem struct {
	Open connectors.OpenSink

	// Rows reads a table back; a table that does not exist has no rows. nil for a store that only appends, which
	// has Log instead; the suite applies the entries itself.
	Rows func(t *testing.T, table *connectors.Table) []Row
	Log  func(t *testing.T, table *connectors.Table) []Entry

	// Refuse makes the store refuse the rows of the table whose column name is "bad"; it is called after the table
	// was migrated. nil: the store refuses nothing.
	Refuse func(t *testing.T, table *connectors.Table)

	// Busy makes the store give up on writes into the row of the table whose key is 1, soon and for the moment (a lock, no
	// memory), until release is called. nil: the store is never busy in this way.
	Busy func(t *testing.T, table *connectors.Table) (release func())
}

// SinkCase is a sink under test.
type SinkCase struct {
	New func(t *testing.T) SinkSystem // a store of its own for each call

	Schema  string // of the tables; default: shop
	Wide    int    // columns of the widest table that the store has; default 1600
	Large   int    // rows of the largest batch; default 5000
	Plain   bool   // a name of a column may hold no backslash
	Partial bool   // the rows beside a refused one may be there before they come again
	NoClaim bool   // two writers of one group do not know of each other, although the sink is transactional
	Late    bool   // a batch that was written before leaves what was written since as it is

	// Shows is the text in which the store gives a value back when that is not the value's own; false: the store has no
	// such value, and refuses it. nil: every value keeps its text.
	Shows func(v connectors.Value) (string, bool)
}

// RunSink runs the suite.
func RunSink(t *testing.T, c SinkCase) {
	if c.Schema == "" {
		c.Schema = "shop"
	}
	if c.Wide == 0 {
		c.Wide = 1600
	}
	if c.Large == 0 {
		c.Large = 5000
	}
	tests := []struct {
		name string
		run  func(*trial)
	}{
		{"rows are inserted, updated and deleted", (*trial).basics},
		{"F46: the last of several changes of one key wins", (*trial).sameKey},
		{"an absent column is never overwritten", (*trial).absentColumns},
		{"a row moves to its new key", (*trial).keyChange},
		{"two rows swap their keys", (*trial).keySwap},
		{"truncate removes what came before and only that", (*trial).truncate},
		{"NULL and the empty string stay two things", (*trial).nulls},
		{"names and texts of any characters are kept", (*trial).oddNames},
		{"keys of any characters are found again", (*trial).oddKeys},
		{"values of every kind keep their text", (*trial).kinds},
		{"a composite key is one key", (*trial).compositeKey},
		{"rows without a key are all kept", (*trial).keyless},
		{"F46: wide rows and large batches are stored", (*trial).wide},
		{"a column that appears is added", (*trial).addColumn},
		{"a replay gives the same rows", (*trial).replay},
		{"messages and empty batches change nothing", (*trial).messages},
		{"a refused row is named and the rest lands without it", (*trial).refused},
		{"a store that is busy gives the batch back and takes it later", (*trial).busy},
		{"F47: what a store can't hold is named, and the good rows around it land", (*trial).poison},
		{"F49: a write that comes late brings nothing back", (*trial).lateWrite},
		{"F50: order and empties in one batch", (*trial).orderAndEmpties},
		{"F51: every digit is kept, and a delete is seen", (*trial).exactValues},
		{"a write that its context ends leaves nothing", (*trial).cancelled},
		{"the position is committed with the rows", (*trial).committed},
		{"an older writer is fenced", (*trial).fenced},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &trial{T: t, c: c, system: c.New(t)}
			r.sink = r.open()
			test.run(r)
		})
	}
}

// trial is one test of one store.
type trial struct {
	*testing.T
	c        SinkCase
	system   SinkSystem
	sink     connectors.Sink
	opened   bool
	migrated map[*connectors.Table]bool
	lacking  atomic.Int64 // values that columns could not hold, as the sink reports
}

// open opens one more sink on the store. The goroutines of all are counted when the last of them is closed, which is the
// first: until then an older one may open connections.
func (r *trial) open() connectors.Sink {
	r.Helper()
	before, first := goleak.IgnoreCurrent(), !r.opened
	r.opened = true
	e := env(r.T, false)
	e.Report = func(report connectors.Report) { r.lacking.Add(report.Unrepresentable) }
	s, err := r.system.Open(deadline(r.T), e)
	if err != nil {
		r.Fatalf("open sink: %v", err)
	}
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			r.Errorf("close sink: %v", err)
		}
		if first {
			// A Kafka cluster in the test's own process sees a connection end a little later than its client.
			goroutinesEnd(r.T, before, goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).read"),
				goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).write"))
		}
	})
	return s
}

// table returns the table that most tests write into.
func (r *trial) table() *connectors.Table {
	return &connectors.Table{
		Schema: r.c.Schema, Name: "item", Key: []int{0},
		Columns: []connectors.Column{
			{Name: "id", Type: "bigint", Kind: connectors.Int, NotNull: true},
			{Name: "name", Type: "text", Kind: connectors.Text},
			{Name: "note", Type: "text", Kind: connectors.Text},
		},
	}
}

// migrate does what the pipeline does before the first write of a table.
func (r *trial) migrate(from, to *connectors.Table) {
	r.Helper()
	m, ok := r.sink.(connectors.Migrator)
	if !ok || r.migrated[to] {
		return
	}
	if r.migrated == nil {
		r.migrated = map[*connectors.Table]bool{}
	}
	r.migrated[to] = true
	if err := m.Migrate(deadline(r.T), connectors.Migration{From: from, To: to}); err != nil {
		r.Fatalf("migrate %s: %v", to.FullName(), err)
	}
}

// write claims the stream, migrates and writes; it must succeed.
func (r *trial) write(b connectors.Batch) {
	r.Helper()
	r.claim(r.sink, b.Stream)
	for _, c := range b.Changes {
		if c.Table != nil {
			r.migrate(nil, c.Table)
		}
	}
	if err := r.sink.Write(deadline(r.T), b); err != nil {
		r.Fatalf("write: %v", err)
	}
}

// claim asks for the position, as the pipeline does before the first write of a stream.
func (r *trial) claim(s connectors.Sink, stream string) connectors.Position {
	r.Helper()
	tx, ok := s.(connectors.Transactional)
	if !ok {
		return nil
	}
	p, err := tx.Committed(deadline(r.T), stream)
	if err != nil {
		r.Fatalf("committed: %v", err)
	}
	return p
}

// rows reads a table back.
func (r *trial) rows(table *connectors.Table) []Row {
	r.Helper()
	if r.system.Rows != nil {
		return r.system.Rows(r.T, table)
	}
	log := r.system.Log(r.T, table)
	if _, ok := r.sink.(connectors.Transactional); ok {
		known := map[int64]bool{}
		for _, e := range log {
			// A key change may be two entries of one offset, a delete first.
			if known[e.Offset] && e.Op == connectors.Delete {
				r.Errorf("offset %d stands in the store twice", e.Offset)
			}
			known[e.Offset] = true
		}
	}
	return fold(r.T, table, log)
}

// want compares the rows of a table in any order.
func (r *trial) want(table *connectors.Table, want ...Row) {
	r.Helper()
	if got, want := show(r.rows(table)), show(want); got != want {
		r.Errorf("rows of %s:\n%s\nwant:\n%s", table.FullName(), got, want)
	}
}

func (r *trial) basics() {
	t, s := r.table(), newScript()
	r.write(s.batch(
		connectors.Change{Op: connectors.Snapshot, Table: t, After: row(1, "one", nil)},
		insert(t, 2, "two", "n"), insert(t, 3, "three", "n")))
	r.want(t, Row{"id": "1", "name": "one"}, Row{"id": "2", "name": "two", "note": "n"}, Row{"id": "3", "name": "three", "note": "n"})
	r.write(s.batch(update(t, 1, "uno", "now"), remove(t, 2, absent, absent), insert(t, 4, "four", nil), update(t, 5, "five", nil)))
	r.want(t, Row{"id": "1", "name": "uno", "note": "now"}, Row{"id": "3", "name": "three", "note": "n"},
		Row{"id": "4", "name": "four"}, Row{"id": "5", "name": "five"})
	r.write(s.batch(remove(t, 77, absent, absent), remove(t, 1, "uno", "now")))
	r.want(t, Row{"id": "3", "name": "three", "note": "n"}, Row{"id": "4", "name": "four"}, Row{"id": "5", "name": "five"})
}

func (r *trial) sameKey() {
	t, s := r.table(), newScript()
	r.write(s.batch(
		insert(t, 1, "a", nil), update(t, 1, "b", nil), update(t, 1, "c", nil), update(t, 1, "d", nil), remove(t, 1, absent, absent),
		insert(t, 1, "again", "new"), insert(t, 2, "x", nil), remove(t, 2, absent, absent)))
	r.want(t, Row{"id": "1", "name": "again", "note": "new"})
	r.write(s.batch(remove(t, 1, absent, absent), insert(t, 1, "b", nil), remove(t, 1, absent, absent)))
	r.want(t)
}

func (r *trial) absentColumns() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", "long"), insert(t, 2, "two", "longer")))
	r.write(s.batch(update(t, 1, "uno", absent), update(t, 2, absent, nil)))
	r.want(t, Row{"id": "1", "name": "uno", "note": "long"}, Row{"id": "2", "name": "two"})
	r.write(s.batch(
		insert(t, 3, "three", "kept"), update(t, 3, "tres", absent), update(t, 3, absent, absent),
		update(t, 4, absent, "only"), update(t, 5, absent, absent)))
	r.want(t, Row{"id": "1", "name": "uno", "note": "long"}, Row{"id": "2", "name": "two"},
		Row{"id": "3", "name": "tres", "note": "kept"}, Row{"id": "4", "note": "only"}, Row{"id": "5"})
}

func (r *trial) keyChange() {
	t, s := r.table(), newScript()
	moved := func(from int, values ...any) connectors.Change {
		c := update(t, values...)
		c.Before = row(from, absent, absent)
		return c
	}
	r.write(s.batch(insert(t, 1, "one", "n1"), insert(t, 2, "two", "n2")))
	r.write(s.batch(moved(1, 11, "one", absent), moved(2, 12, "two", "new")))
	r.want(t, Row{"id": "11", "name": "one", "note": "n1"}, Row{"id": "12", "name": "two", "note": "new"})
	r.write(s.batch(moved(11, 13, absent, absent), moved(13, 14, "end", absent), moved(12, 12, "same", absent)))
	r.want(t, Row{"id": "14", "name": "end", "note": "n1"}, Row{"id": "12", "name": "same", "note": "new"})
}

func (r *trial) keySwap() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", nil), insert(t, 2, "two", nil)))
	r.write(s.batch(remove(t, 1, absent, absent), remove(t, 2, absent, absent), insert(t, 2, "one", nil), insert(t, 1, "two", nil)))
	r.want(t, Row{"id": "2", "name": "one"}, Row{"id": "1", "name": "two"})
}

func (r *trial) truncate() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", nil), insert(t, 2, "two", nil)))
	r.write(s.batch(insert(t, 3, "three", nil), connectors.Change{Op: connectors.Truncate, Table: t}, insert(t, 1, "new", nil)))
	r.want(t, Row{"id": "1", "name": "new"})
	r.write(s.batch(connectors.Change{Op: connectors.Truncate, Table: t}))
	r.want(t)
}

func (r *trial) nulls() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "", nil), insert(t, 2, nil, ""), insert(t, 3, "null", "NULL"), insert(t, 4, `\N`, `""`)))
	r.want(t, Row{"id": "1", "name": ""}, Row{"id": "2", "note": ""}, Row{"id": "3", "name": "null", "note": "NULL"},
		Row{"id": "4", "name": `\N`, "note": `""`})
	r.write(s.batch(update(t, 1, nil, ""), update(t, 2, "", nil)))
	r.want(t, Row{"id": "1", "note": ""}, Row{"id": "2", "name": ""}, Row{"id": "3", "name": "null", "note": "NULL"},
		Row{"id": "4", "name": `\N`, "note": `""`})
}

func (r *trial) oddNames() {
	t, s := r.table(), newScript()
	t.Name = `Ünï "quoted" 'x'; --`
	t.Columns[0].Name, t.Columns[1].Name, t.Columns[2].Name = "select", `a "b" 'c' \ ü.d`, "GROUP BY"
	if r.c.Plain {
		t.Columns[1].Name = `a "b" 'c' ü.d`
	}
	value := "tab\t, line\r\nquote\" ' \\ 日本語 🙂 , ; é \\u0000"
	r.write(s.batch(insert(t, 1, value, " "), insert(t, 2, "'; DROP TABLE item; --", "$1 ? %s {}")))
	r.want(t, Row{"select": "1", t.Columns[1].Name: value, "GROUP BY": " "},
		Row{"select": "2", t.Columns[1].Name: "'; DROP TABLE item; --", "GROUP BY": "$1 ? %s {}"})
	r.write(s.batch(update(t, 1, absent, "x"), remove(t, 2, absent, absent)))
	r.want(t, Row{"select": "1", t.Columns[1].Name: value, "GROUP BY": "x"})
}

func (r *trial) compositeKey() {
	t, s := r.table(), newScript()
	t.Key = []int{1, 0}
	r.write(s.batch(insert(t, 1, "a", "1a"), insert(t, 1, "b", "1b"), insert(t, 2, "a", "2a")))
	r.write(s.batch(update(t, 1, "b", "changed"), remove(t, 2, "a", absent), insert(t, 2, "b", nil)))
	r.want(t, Row{"id": "1", "name": "a", "note": "1a"}, Row{"id": "1", "name": "b", "note": "changed"}, Row{"id": "2", "name": "b"})
}

func (r *trial) keyless() {
	t, s := r.table(), newScript()
	t.Key = nil
	r.write(s.batch(insert(t, 1, "a", nil), insert(t, 1, "a", nil), insert(t, nil, nil, nil)))
	r.write(s.batch(insert(t, 1, "a", nil)))
	r.want(t, Row{"id": "1", "name": "a"}, Row{"id": "1", "name": "a"}, Row{}, Row{"id": "1", "name": "a"})
}

// kinds writes a value of each kind. What a store shows of it in its own words, the adapter brings back.
func (r *trial) kinds() {
	s := newScript()
	t := &connectors.Table{
		Schema: r.c.Schema, Name: "kinds", Key: []int{0},
		Columns: []connectors.Column{{Name: "id", Kind: connectors.Int, NotNull: true}},
	}
	first, want := row(1), Row{"id": "1"}
	shows := r.c.Shows
	if shows == nil {
		shows = func(v connectors.Value) (string, bool) { return string(v.AppendText(nil)), true }
	}
	add := func(k connectors.Kind, v connectors.Value) {
		text, ok := shows(v)
		if !ok {
			return
		}
		name := k.String() + strconv.Itoa(len(t.Columns))
		t.Columns = append(t.Columns, connectors.Column{Name: name, Kind: k})
		first = append(first, v)
		want[name] = text
	}
	add(connectors.Bool, connectors.BoolValue(true))
	add(connectors.Int, connectors.IntValue(-1<<63))
	add(connectors.Int, connectors.IntValue(9007199254740993))
	add(connectors.Uint, connectors.UintValue(1<<64-1))
	for _, v := range []struct {
		kind connectors.Kind
		data string
	}{
		{connectors.Float, "0.1"}, {connectors.Float, "-1.7976931348623157e+308"}, {connectors.Float, "NaN"}, {connectors.Float, "-Infinity"},
		{connectors.Decimal, "1.10"}, {connectors.Decimal, "123456789012345678901234567890.123456789"},
		{connectors.Text, "é"}, {connectors.Bytes, "\x00\xff\x27"}, {connectors.JSON, `{"b": 1,  "a":0.10}`},
		{connectors.Date, "2026-01-30"}, {connectors.Time, "12:34:56.5"}, {connectors.Timestamp, "2026-01-30T12:34:56.123456"},
		{connectors.TimestampTZ, "2026-01-30T17:34:56.123456Z"},
	} {
		add(v.kind, connectors.DataValue(v.kind, []byte(v.data)))
	}
	r.write(s.batch(connectors.Change{Op: connectors.Insert, Table: t, After: first}))
	r.want(t, want)
}

func (r *trial) wide() {
	s := newScript()
	t := &connectors.Table{Schema: r.c.Schema, Name: "wide", Key: []int{0}}
	for i := range r.c.Wide {
		t.Columns = append(t.Columns, connectors.Column{Name: "c" + strconv.Itoa(i), Type: "integer", Kind: connectors.Int})
	}
	var changes []connectors.Change
	for id := range 41 {
		values := make([]any, r.c.Wide)
		for i := range values {
			values[i] = id
		}
		changes = append(changes, insert(t, values...))
	}
	r.write(s.batch(changes...))
	got := r.rows(t)
	if len(got) != 41 {
		r.Fatalf("%d rows of %d columns, want 41", len(got), r.c.Wide)
	}
	last := "c" + strconv.Itoa(r.c.Wide-1)
	for _, g := range got {
		if g[last] != g["c0"] || len(g) != r.c.Wide {
			r.Fatalf("row %s has %d columns, the last is %s", g["c0"], len(g), g[last])
		}
	}
	many := r.table()
	changes = nil
	for id := range r.c.Large {
		changes = append(changes, insert(many, id, "n"+strconv.Itoa(id), nil))
	}
	r.write(s.batch(changes...))
	if n := len(r.rows(many)); n != r.c.Large {
		r.Errorf("%d rows, want %d", n, r.c.Large)
	}
}

func (r *trial) addColumn() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", nil)))
	wider := *t
	wider.Columns = append(slices.Clone(t.Columns), connectors.Column{Name: "extra", Type: "bigint", Kind: connectors.Int})
	r.migrate(t, &wider)
	r.write(s.batch(insert(&wider, 2, "two", nil, 22), update(&wider, 1, "uno", nil, nil), insert(t, 3, "by the old version", nil)))
	r.want(&wider, Row{"id": "1", "name": "uno"}, Row{"id": "2", "name": "two", "extra": "22"}, Row{"id": "3", "name": "by the old version"})
	if m, ok := r.sink.(connectors.Migrator); ok {
		again := wider
		if err := m.Migrate(deadline(r.T), connectors.Migration{From: t, To: &again}); err != nil {
			r.Errorf("the same step again: %v", err)
		}
	}
}

func (r *trial) replay() {
	t, s := r.table(), newScript()
	moved := update(t, 3, "moved", absent)
	moved.Before = row(1, absent, absent)
	batches := []connectors.Batch{
		s.batch(insert(t, 1, "one", "n"), insert(t, 2, "two", nil), update(t, 2, "dos", absent)),
		s.batch(moved, remove(t, 2, absent, absent), insert(t, 4, "four", nil)),
	}
	for _, b := range batches {
		r.write(b)
	}
	want := []Row{{"id": "3", "name": "moved", "note": "n"}, {"id": "4", "name": "four"}}
	r.want(t, want...)
	// What was written and not acknowledged comes again; the sink need not have seen it before to be asked.
	r.write(batches[1])
	r.want(t, want...)
}

func (r *trial) messages() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", nil)))
	r.write(connectors.Batch{Stream: s.stream, Position: connectors.Position("9")})
	r.want(t, Row{"id": "1", "name": "one"})
	s.next = 9
	r.write(s.batch(
		connectors.Change{Op: connectors.Message, After: row("prefix", connectors.DataValue(connectors.Bytes, []byte("x")))},
		insert(t, 2, "two", nil)))
	r.want(t, Row{"id": "1", "name": "one"}, Row{"id": "2", "name": "two"})
}

func (r *trial) refused() {
	if r.system.Refuse == nil {
		r.Skip("the store refuses nothing")
	}
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 100, "first", nil)))
	r.system.Refuse(r.T, t)
	var changes []connectors.Change
	for id := range 10 {
		changes = append(changes, insert(t, id, "good", nil))
	}
	changes = append(changes, insert(t, 50, "bad", nil))
	for id := range 10 {
		changes = append(changes, insert(t, 10+id, "good", nil))
	}
	changes = append(changes, update(t, 3, "bad", absent))
	b := s.batch(changes...)
	err := r.sink.Write(deadline(r.T), b)
	var rows *connectors.RowsError
	if !errors.As(err, &rows) {
		r.Fatalf("write: %v, want a RowsError", err)
	}
	drop := map[int]bool{}
	for _, e := range rows.Rows {
		drop[e.Index] = true
	}
	if !drop[10] && !drop[21] || len(drop) > 2 || len(drop) == 2 && (!drop[10] || !drop[21]) {
		r.Fatalf("refused %v, want 10 and 21, at once or one after the other", drop)
	}
	if !r.c.Partial {
		r.want(t, Row{"id": "100", "name": "first"})
	}
	for len(changes) > 0 {
		b.Changes = nil
		for i, c := range changes {
			if !drop[i] {
				b.Changes = append(b.Changes, c)
			}
		}
		err := r.sink.Write(deadline(r.T), b)
		if err == nil {
			break
		}
		if !errors.As(err, &rows) {
			r.Fatalf("write without the refused rows: %v", err)
		}
		changes, drop = b.Changes, map[int]bool{}
		for _, e := range rows.Rows {
			drop[e.Index] = true
		}
	}
	want := []Row{{"id": "100", "name": "first"}}
	for id := range 20 {
		want = append(want, Row{"id": strconv.Itoa(id), "name": "good"})
	}
	r.want(t, want...)
}

func (r *trial) cancelled() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", nil)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := s.batch(insert(t, 2, "two", nil))
	if err := r.sink.Write(ctx, b); err == nil {
		r.Fatal("a write whose context has ended gave no error")
	}
	r.want(t, Row{"id": "1", "name": "one"})
	r.sink = r.open()
	r.write(b)
	r.want(t, Row{"id": "1", "name": "one"}, Row{"id": "2", "name": "two"})
}

func (r *trial) committed() {
	if _, ok := r.sink.(connectors.Transactional); !ok {
		r.Skip("the sink is at least once")
	}
	t, s := r.table(), newScript()
	if p := r.claim(r.sink, s.stream); p != nil {
		r.Errorf("a new stream has position %q", p)
	}
	r.write(s.batch(insert(t, 1, "one", nil)))
	last := s.batch(insert(t, 2, "two", nil))
	r.write(last)
	other := &script{stream: "shop.item/1"}
	r.write(other.batch(insert(t, 3, "three", nil)))
	r.sink = r.open()
	if p := r.claim(r.sink, s.stream); string(p) != string(last.Position) {
		r.Errorf("position %q, want %q", p, last.Position)
	}
	if p := r.claim(r.sink, other.stream); string(p) != "1" {
		r.Errorf("position of the other stream %q, want 1", p)
	}
	if p := r.claim(r.sink, "shop.item/2"); p != nil {
		r.Errorf("a stream that was never written has position %q", p)
	}
	// Records that make no change move the position; a person may set it back.
	for stream, position := range map[string]string{s.stream: "10", "shop.item/2": "7", "shop.item/3": "3"} {
		r.write(connectors.Batch{Stream: stream, Position: connectors.Position(position)})
	}
	r.write(connectors.Batch{Stream: "shop.item/3", Position: connectors.Position("1")})
	r.sink = r.open()
	for stream, position := range map[string]string{s.stream: "10", "shop.item/2": "7", "shop.item/3": "1"} {
		if p := r.claim(r.sink, stream); string(p) != position {
			r.Errorf("position %q of %s after a batch without changes, want %s", p, stream, position)
		}
	}
}

func (r *trial) fenced() {
	if _, ok := r.sink.(connectors.Transactional); !ok || r.c.NoClaim {
		r.Skip("the sink knows of no other writers")
	}
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", nil)))
	older := r.sink
	r.sink = r.open()
	position := r.claim(r.sink, s.stream)
	b := s.batch(insert(t, 2, "two", nil))
	if err := older.Write(deadline(r.T), b); !errors.Is(err, connectors.ErrFenced) {
		r.Errorf("write of the older sink: %v, want ErrFenced", err)
	}
	if p := r.claim(r.sink, s.stream); string(p) != string(position) {
		r.Errorf("the fenced write moved the position to %q", p)
	}
	r.want(t, Row{"id": "1", "name": "one"})
	r.write(b)
	r.want(t, Row{"id": "1", "name": "one"}, Row{"id": "2", "name": "two"})
}
