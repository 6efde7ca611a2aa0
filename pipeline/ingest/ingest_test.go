package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	items = &connectors.Table{
		Database: "shop", Schema: "public", Name: "item", Key: []int{0},
		Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}, {Name: "v", Kind: connectors.Text}, {Name: "big", Kind: connectors.Text}},
	}
	keyless = &connectors.Table{Database: "shop", Schema: "public", Name: "event", Columns: []connectors.Column{{Name: "v", Kind: connectors.Text}}}
)

func text(s string) connectors.Value { return connectors.DataValue(connectors.Text, []byte(s)) }

func item(id int, v string) []connectors.Value {
	return []connectors.Value{connectors.IntValue(int64(id)), text(v), connectors.NullValue()}
}

func insert(t *connectors.Table, row []connectors.Value) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: t, After: row, Time: time.UnixMilli(1769794496123)}
}

func openLog(t testing.TB) log.Log {
	t.Helper()
	l, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func options(l log.Log, f *memory.Feed) ingest.Options {
	return ingest.Options{Source: "shop", Connector: "memory", Version: "1.0.0", Open: f.Open, Journal: l, Schemas: codec.NewSchemas(l), Once: true}
}

func run(t testing.TB, o ingest.Options) (*ingest.Ingest, error) {
	t.Helper()
	g, err := ingest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g, g.Run(t.Context())
}

// records reads what committed readers see of a topic, by partition.
func records(t testing.TB, l log.Log, name string) [][]log.Record {
	t.Helper()
	topic, err := l.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]log.Record, len(topic.Partitions))
	for i, p := range topic.Partitions {
		tp := log.TopicPartition{Topic: name, Partition: int32(i)}
		c, err := l.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
		if err != nil {
			t.Fatal(err)
		}
		for next := p.LogStart; next < p.LastStable; {
			f, err := c.Poll(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Records {
				r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
				for j := range r.Headers {
					r.Headers[j].Value = bytes.Clone(r.Headers[j].Value)
				}
				out[i] = append(out[i], r)
			}
			next = f.Next
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func header(r log.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// op returns the operation of a record and the v of its after image.
func op(t testing.TB, r log.Record) (string, string) {
	t.Helper()
	if r.Value == nil {
		return "tombstone", ""
	}
	var e struct {
		Op    string
		After struct{ V string }
	}
	if err := json.Unmarshal(r.Value, &e); err != nil {
		t.Fatal(err)
	}
	return e.Op, e.After.V
}

func TestRowsLandInThePartitionOfTheirKey(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	for id := range 100 {
		f.Append(insert(items, item(id, "v")), insert(keyless, []connectors.Value{text("e")}))
	}
	g, err := run(t, options(l, f))
	if err != nil {
		t.Fatal(err)
	}
	seen, position := 0, 0
	for p, list := range records(t, l, "shop.public.item") {
		for _, r := range list {
			seen++
			if want := log.PartitionFor(r.Key, 4); want != int32(p) {
				t.Errorf("key %s is in partition %d, want %d", r.Key, p, want)
			}
			if r.Timestamp != 1769794496123 || header(r, codec.HeaderSchema) == "" {
				t.Errorf("stamped %d, headers %v", r.Timestamp, r.Headers)
			}
			if n, err := strconv.Atoi(header(r, codec.HeaderPosition)); err != nil || n > 200 {
				t.Errorf("position %q", header(r, codec.HeaderPosition))
			} else {
				position = max(position, n)
			}
		}
	}
	if seen != 100 || position != 199 {
		t.Errorf("%d rows, the last at position %d", seen, position)
	}
	for p, list := range records(t, l, "shop.public.event") {
		if want := map[bool]int{true: 100}[p == 0]; len(list) != want {
			t.Errorf("%d rows without a key in partition %d, want %d", len(list), p, want)
		}
		for _, r := range list {
			if r.Key != nil {
				t.Errorf("key %s of a table without one", r.Key)
			}
		}
	}
	s := g.Status()
	if s.Changes != 200 || len(s.Tables) != 2 || s.Tables[1].Rows != 100 || s.Tables[1].Topic != "shop.public.item" || s.Lag() <= 0 {
		t.Errorf("status %+v", s)
	}
}

func TestKeyChangeBecomesDeleteAndInsert(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	var warned []string
	o := options(l, f)
	o.OnReport = func(r connectors.Report) { warned = append(warned, r.Reason) }
	f.Append(insert(items, []connectors.Value{connectors.IntValue(1), text("a"), text("whole")}))
	f.Append(connectors.Change{Op: connectors.Update, Table: items,
		Before: []connectors.Value{connectors.IntValue(1), {}, text("whole")},
		After:  []connectors.Value{connectors.IntValue(1001), text("b"), {}}})
	f.Append(connectors.Change{Op: connectors.Update, Table: items,
		Before: []connectors.Value{connectors.IntValue(1001), {}, {}},
		After:  []connectors.Value{connectors.IntValue(1002), text("c"), {}}})
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, list := range records(t, l, "shop.public.item") {
		for _, r := range list {
			o, v := op(t, r)
			got[string(r.Key)] += o + v + " "
			if string(r.Key) == `{"id":1001}` && o == "c" && !bytes.Contains(r.Value, []byte("whole")) {
				t.Errorf("the old row's column did not come along: %s", r.Value)
			}
		}
	}
	want := map[string]string{`{"id":1}`: "ca d ", `{"id":1001}`: "cb d ", `{"id":1002}`: "cc "}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], `"big"`) {
		t.Errorf("warnings %q", warned)
	}
}

func TestUntouchedColumnsComeFromTheOldRow(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	f.Append(connectors.Change{Op: connectors.Update, Table: items,
		Before: []connectors.Value{connectors.IntValue(1), text("a"), text("whole")},
		After:  []connectors.Value{{}, text("b"), {}}})
	if _, err := run(t, options(l, f)); err != nil {
		t.Fatal(err)
	}
	for _, list := range records(t, l, "shop.public.item") {
		for _, r := range list {
			if string(r.Key) != `{"id":1}` || !bytes.Contains(r.Value, []byte(`"after":{"id":1,"v":"b","big":"whole"}`)) || bytes.Contains(r.Value, []byte("unchanged")) {
				t.Errorf("%s %s", r.Key, r.Value)
			}
		}
	}
}

func TestTruncateStandsInEveryPartition(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	f.Append(connectors.Change{Op: connectors.Truncate, Table: items})
	f.Append(connectors.Change{Op: connectors.Truncate, Table: items})
	if _, err := run(t, options(l, f)); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for p, list := range records(t, l, "shop.public.item") {
		if len(list) != 2 {
			t.Fatalf("%d records in partition %d", len(list), p)
		}
		ids = append(ids, header(list[0], codec.HeaderBarrier)+" "+header(list[1], codec.HeaderBarrier))
		if o, _ := op(t, list[0]); o != "t" || ids[p] != ids[0] || header(list[0], codec.HeaderBarrier) == header(list[1], codec.HeaderBarrier) {
			t.Errorf("partition %d: %s, barriers %q", p, o, ids)
		}
	}
}

func TestDeleteInACompactedTopicIsFollowedByATombstone(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	o := options(l, f)
	o.Topics = log.TopicConfig{Partitions: 1, Compact: true}
	f.Append(insert(items, item(1, "a")), connectors.Change{Op: connectors.Delete, Table: items, Before: []connectors.Value{connectors.IntValue(1), {}, {}}})
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range records(t, l, "shop.public.item")[0] {
		o, _ := op(t, r)
		got = append(got, o+string(r.Key))
	}
	if want := `[c{"id":1} d{"id":1} tombstone{"id":1}]`; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestHugeTransactionIsVisibleOnlyWhole(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	o := options(l, f)
	o.Limits.BatchRows = 100
	var changes []connectors.Change
	for id := range 1000 {
		changes = append(changes, insert(items, item(id, "v")))
	}
	f.Append(changes...)
	broken := errors.New("connection lost")
	for range 5 { // the reads before it are pieces of the transaction
		cut := memory.NewFeed()
		cut.Append(changes...)
		pieces := 0
		o.Open = func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
			s, err := cut.Open(ctx, env, from)
			return &cutSource{Source: s, after: 5, err: broken, pieces: &pieces}, err
		}
		if _, err := run(t, o); !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		for _, list := range records(t, l, "shop.public.item") {
			n += len(list)
		}
		return n
	}
	if n := count(); n != 0 {
		t.Fatalf("%d rows of a transaction that did not commit", n)
	}
	o.Open = f.Open
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 1000 {
		t.Errorf("%d rows, want 1000", n)
	}
}

// cutSource breaks after some reads.
type cutSource struct {
	connectors.Source
	after  int
	err    error
	pieces *int
}

func (s *cutSource) Read(ctx context.Context) (connectors.Batch, error) {
	if *s.pieces++; *s.pieces > s.after {
		return connectors.Batch{}, s.err
	}
	return s.Source.Read(ctx)
}

func TestRowOverTheLimitIsRefusedByName(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	o := options(l, f)
	o.Topics.MaxRecordBytes = 1000
	f.Append(insert(items, item(1, strings.Repeat("secret", 300))))
	_, err := run(t, o)
	if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "public.item (key id)") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestChangeWithoutItsKeyIsFatal(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	f.Append(connectors.Change{Op: connectors.Delete, Table: items, Before: []connectors.Value{{}, text("v"), {}}})
	if _, err := run(t, options(l, f)); !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), `"id"`) {
		t.Errorf("error %v", err)
	}
}

func TestStopIsCleanAndAcknowledgesWhatIsDurable(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	o := options(l, f)
	o.Once = false
	g, err := ingest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	at := f.Append(insert(items, item(1, "a")))
	if err := f.Wait(t.Context(), func() bool { return bytes.Equal(f.Acked(), at) }); err != nil {
		t.Fatal(err)
	}
	if !g.Status().Connected {
		t.Error("not connected while it runs")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, open := f.Opened(); open != 0 || g.Status().Connected {
		t.Error("the source is still open")
	}
	if err := g.Resync(t.Context(), "public.item"); err == nil {
		t.Error("a source that is not open was resynced")
	}
}

func TestLostPositionStopsTheSource(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	f.Append(insert(items, item(1, "a")))
	if _, err := run(t, options(l, f)); err != nil {
		t.Fatal(err)
	}
	f.Lose(f.Append(insert(items, item(2, "b"))))
	if _, err := run(t, options(l, f)); !errors.Is(err, connectors.ErrPositionLost) {
		t.Errorf("error %v", err)
	}
}

func TestMessagesGetATopicOfTheirOwn(t *testing.T) {
	t.Parallel()
	l, f := openLog(t), memory.NewFeed()
	f.Append(connectors.Change{Op: connectors.Message, After: []connectors.Value{text("app"), connectors.DataValue(connectors.Bytes, []byte("hi"))}})
	if _, err := run(t, options(l, f)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, list := range records(t, l, "shop.message") {
		n += len(list)
	}
	if n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestTopicNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template, want string
		table          connectors.Table
	}{
		{ingest.DefaultTopic, "shop.public.item", connectors.Table{Schema: "public", Name: "item"}},
		{ingest.DefaultTopic, "shop.item", connectors.Table{Name: "item"}},
		{ingest.DefaultTopic, "shop.public.Gr__e_a_b", connectors.Table{Schema: "public", Name: "Größe a/b"}},
		{"{database}-{table}", "db-item", connectors.Table{Database: "db", Schema: "public", Name: "item"}},
		{"all", "all", connectors.Table{Schema: "public", Name: "item"}},
		{ingest.DefaultTopic, "own", connectors.Table{Schema: "public", Name: "item", Topic: "own"}},
		{"{table}", "__", connectors.Table{Name: ".."}},
	} {
		got := ingest.TopicName(c.template, "shop", &c.table)
		if got != c.want || log.CheckTopicName(got) != nil {
			t.Errorf("%s of %v: %q, want %q", c.template, c.table, got, c.want)
		}
	}
	for _, bad := range []string{"", "{topic}", "{source", "a}"} {
		if ingest.CheckTemplate(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
