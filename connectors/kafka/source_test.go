package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/document"
	"github.com/trunkline/trunkline/connectors/kafka"
)

// reading makes a source's opener.
func reading(t *testing.T, brokers []string, set func(*kafka.SourceConfig)) connectors.OpenSource {
	t.Helper()
	open, err := kafka.Connector().Source(func(into any) error {
		c := into.(*kafka.SourceConfig)
		c.Brokers, c.Topics, c.Refresh = brokers, []string{"*"}, 50*time.Millisecond
		set(c)
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// other is a client of somebody else.
type other struct {
	t *testing.T
	*kgo.Client
	admin *kadm.Client
}

func another(t *testing.T, brokers []string, opts ...kgo.Opt) other {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return other{t, client, kadm.NewClient(client)}
}

func (o other) topic(name string, partitions int32) {
	o.t.Helper()
	if _, err := o.admin.CreateTopic(o.t.Context(), partitions, 1, nil, name); err != nil {
		o.t.Fatal(err)
	}
}

// put produces a record. Empty texts are null.
func (o other) put(topic string, partition int32, key, value string, headers ...kgo.RecordHeader) {
	o.t.Helper()
	r := &kgo.Record{Topic: topic, Partition: partition, Headers: headers, Timestamp: time.UnixMilli(1769776496123)}
	if key != "" {
		r.Key = []byte(key)
	}
	if value != "" {
		r.Value = []byte(value)
	}
	if err := o.ProduceSync(o.t.Context(), r).FirstErr(); err != nil {
		o.t.Fatal(err)
	}
}

// patient is a source whose closing has come to its end when the cluster, which is in the same process, has noticed it too.
type patient struct {
	connectors.Source
	before goleak.Option
}

func (p patient) Close(ctx context.Context) error {
	err := p.Source.Close(ctx)
	for end := time.Now().Add(20 * time.Second); goleak.Find(p.before) != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return err
}

func TestSourceConformance(t *testing.T) {
	conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
		brokers := cluster(t)
		another(t, brokers).topic("items", 2)
		// The cluster has a goroutine for each connection, which the suite would count.
		put := func(t *testing.T, id int, key, value string) {
			o := another(t, brokers)
			defer o.Close()
			o.put("items", int32(id%2), key, value)
		}
		key := func(id int) string { return fmt.Sprintf(`{"id":%d}`, id) }
		open := reading(t, brokers, func(c *kafka.SourceConfig) {
			c.Topics, c.Content, c.Table, c.Group = []string{"items"}, kafka.Rows, "shop.item", "off"
		})
		return conformance.SourceSystem{
			Open: func(ctx context.Context, env connectors.Env, at connectors.Position) (connectors.Source, error) {
				before := goleak.IgnoreCurrent()
				s, err := open(ctx, env, at)
				return patient{s, before}, err
			},
			Table: "shop.item",
			Insert: func(t *testing.T, ids ...int) {
				for _, id := range ids {
					put(t, id, key(id), fmt.Sprintf(`{"v":"v%d"}`, id))
				}
			},
			Update: func(t *testing.T, id int, v string) { put(t, id, key(id), fmt.Sprintf(`{"v":%q}`, v)) },
			Delete: func(t *testing.T, id int) { put(t, id, key(id), "") },
		}
	}})
}

// drained is what a bounded reading brings.
func drained(t *testing.T, open connectors.OpenSource, at connectors.Position) (lines []string, next connectors.Position, err error) {
	t.Helper()
	env := connectors.NewEnv("in")
	env.Once = true
	s, err := open(t.Context(), env, at)
	if err != nil {
		return nil, at, err
	}
	defer s.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		b, err := s.Read(ctx)
		if errors.Is(err, io.EOF) {
			return lines, at, nil
		}
		if err != nil {
			return lines, at, err
		}
		for _, c := range b.Changes {
			line := string(connectors.AppendLine(nil, "", &c))
			_, rest, _ := strings.Cut(strings.TrimSpace(line), `"offset":0,`)
			lines = append(lines, string(c.Position)+" "+rest)
		}
		at = bytes.Clone(b.Position)
		if err := s.Ack(ctx, at); err != nil {
			t.Fatal(err)
		}
	}
}

func mustDrain(t *testing.T, open connectors.OpenSource, at connectors.Position) ([]string, connectors.Position) {
	t.Helper()
	lines, at, err := drained(t, open, at)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines, at
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRecordsBecomeRows(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	o := another(t, brokers)
	for _, name := range []string{"cdc", "raw", "left.out"} {
		o.topic(name, 1)
	}
	const source = `"source":{"schema":"main","table":"item","ts_ms":1769774400000}`
	o.put("cdc", 0, `{"id":1}`, `{"before":null,"after":{"id":1,"v":"x"},`+source+`,"op":"c"}`)
	o.put("cdc", 0, `{"schema":{},"payload":{"id":1}}`, `{"schema":{},"payload":{"before":null,"after":{"id":1,"v":"y"},`+source+`,"op":"u"}}`)
	o.put("cdc", 0, `{"id":1}`, `{"before":{"id":1,"v":"y"},"after":null,`+source+`,"op":"d"}`)
	o.put("cdc", 0, `{"id":1}`, "")
	o.put("cdc", 0, `{"id":2}`, "")
	o.put("raw", 0, "k", "not JSON", kgo.RecordHeader{Key: "a", Value: []byte("1")}, kgo.RecordHeader{Key: "b"}, kgo.RecordHeader{Key: "a", Value: []byte("2")})
	o.put("raw", 0, "", `{"id":5}`)
	o.put("left.out", 0, "k", "v")
	open := reading(t, brokers, func(c *kafka.SourceConfig) { c.Exclude = []string{"left.*"} })
	got, at := mustDrain(t, open, nil)
	const ts = `"ts":"2026-01-30T12:00:00.000000Z","schema":"main","table":"item"`
	const rawTS = `"ts":"2026-01-30T12:34:56.123000Z","schema":"","table":"raw"`
	wantLines(t, got,
		`cdc/0/0 "op":"c",`+ts+`,"key":{"id":1},"before":null,"after":{"id":1,"v":"x"},"unchanged":[]}`,
		`cdc/0/1 "op":"u",`+ts+`,"key":{"id":1},"before":null,"after":{"id":1,"v":"y"},"unchanged":[]}`,
		`cdc/0/2 "op":"d",`+ts+`,"key":{"id":1},"before":{"id":1,"v":"y"},"after":null,"unchanged":[]}`,
		`cdc/0/4 "op":"d","ts":"2026-01-30T12:34:56.123000Z","schema":"main","table":"item","key":{"id":2},"before":{"id":2},"after":null,"unchanged":[]}`,
		`raw/0/0 "op":"r",`+rawTS+`,"key":{"partition":0,"offset":0},"before":null,"after":{"partition":0,"offset":0,"timestamp":"2026-01-30T12:34:56.123Z","key":"k","value":"not JSON","headers":{"b":null,"a":"2"}},"unchanged":[]}`,
		`raw/0/1 "op":"r",`+rawTS+`,"key":{"partition":0,"offset":1},"before":null,"after":{"partition":0,"offset":1,"timestamp":"2026-01-30T12:34:56.123Z","key":null,"value":"{\"id\":5}","headers":{}},"unchanged":[]}`,
	)
	t.Run("a tombstone after a restart is of the table of the topic", func(t *testing.T) {
		o.put("cdc", 0, `{"id":3}`, "")
		got, _ := mustDrain(t, open, at)
		if len(got) != 1 || !strings.Contains(got[0], `"table":"item","key":{"id":3}`) {
			t.Error(got)
		}
	})
	t.Run("the group of the cluster shows the offsets", func(t *testing.T) {
		list, err := o.admin.FetchOffsets(t.Context(), "trunkline-in")
		if err != nil {
			t.Fatal(err)
		}
		if cdc, _ := list.Lookup("cdc", 0); cdc.At < 5 {
			t.Errorf("offset %d, want 5 or more", cdc.At)
		}
	})
}

func TestRowsOfKeysAndValues(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	o := another(t, brokers)
	o.topic("users", 1)
	o.put("users", 0, "anna", `{"age":30}`)
	o.put("users", 0, "7", `{"age":31}`)
	o.put("users", 0, "anna", "")
	open := reading(t, brokers, func(c *kafka.SourceConfig) {
		c.Content, c.Key = kafka.Rows, []string{"name"}
		var text document.Type
		if err := text.UnmarshalText([]byte("text")); err != nil {
			t.Fatal(err)
		}
		c.Types = map[string]document.Type{"name": text}
	})
	got, at := mustDrain(t, open, nil)
	const ts = `"ts":"2026-01-30T12:34:56.123000Z","schema":"","table":"users"`
	wantLines(t, got,
		`users/0/0 "op":"r",`+ts+`,"key":{"name":"anna"},"before":null,"after":{"name":"anna","age":30},"unchanged":[]}`,
		`users/0/1 "op":"r",`+ts+`,"key":{"name":"7"},"before":null,"after":{"name":"7","age":31},"unchanged":[]}`,
		`users/0/2 "op":"d",`+ts+`,"key":{"name":"anna"},"before":{"name":"anna"},"after":null,"unchanged":[]}`)
	o.put("users", 0, "x", "secret")
	_, _, err := drained(t, open, at)
	if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "topic users, partition 0, offset 3") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, want the place of a bad record", err)
	}
}

// TestOnlyWhatIsCommitted has transactions that are given up, and one that is open.
func TestOnlyWhatIsCommitted(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	o := another(t, brokers, kgo.TransactionalID("theirs"))
	o.topic("t", 1)
	transaction := func(end kgo.TransactionEndTry, values ...string) {
		t.Helper()
		if err := o.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			o.put("t", 0, "k", v)
		}
		if err := o.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	transaction(kgo.TryCommit, "a", "b")
	transaction(kgo.TryAbort, "never")
	open := reading(t, brokers, func(*kafka.SourceConfig) {})
	got, at := mustDrain(t, open, nil)
	if text := strings.Join(got, "\n"); len(got) != 2 || strings.Contains(text, "never") {
		t.Errorf("got\n%s", text)
	}
	transaction(kgo.TryCommit, "c")
	if got, _ = mustDrain(t, open, at); len(got) != 1 || !strings.Contains(got[0], `"value":"c"`) {
		t.Errorf("got\n%s", got)
	}
}

func TestPartitionsAndTopicsThatComeLater(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	o := another(t, brokers)
	s, err := reading(t, brokers, func(c *kafka.SourceConfig) { c.Topics = []string{"in.*"} })(t.Context(), connectors.NewEnv("in"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	await := func(place string) {
		t.Helper()
		for {
			b, err := s.Read(ctx)
			if err != nil {
				t.Fatalf("wait for %s: %v", place, err)
			}
			for _, c := range b.Changes {
				if string(c.Position) == place {
					return
				}
			}
		}
	}
	o.topic("in.a", 1)
	o.put("in.a", 0, "k", "v")
	await("in.a/0/0")
	if _, err := o.admin.UpdatePartitions(t.Context(), 2, "in.a"); err != nil {
		t.Fatal(err)
	}
	o = another(t, brokers) // whose view of the partitions is new
	o.put("in.a", 1, "k", "v")
	await("in.a/1/0")
	o.topic("in.b", 1)
	o.put("in.b", 0, "k", "v")
	await("in.b/0/0")
}

func TestPlacesThatAreLost(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	o := another(t, brokers)
	o.topic("t", 1)
	for range 5 {
		o.put("t", 0, "k", "v")
	}
	open := reading(t, brokers, func(*kafka.SourceConfig) {})
	_, at := mustDrain(t, open, nil)
	for range 5 {
		o.put("t", 0, "k", "v")
	}
	trim := kadm.Offsets{}
	trim.Add(kadm.Offset{Topic: "t", Partition: 0, At: 5, LeaderEpoch: -1})
	if _, err := o.admin.DeleteRecords(t.Context(), trim); err != nil {
		t.Fatal(err)
	}
	if got, _ := mustDrain(t, open, at); len(got) != 5 {
		t.Fatalf("%d records, where those that were deleted had been read; want 5", len(got))
	}
	trim.Add(kadm.Offset{Topic: "t", Partition: 0, At: 7, LeaderEpoch: -1})
	if _, err := o.admin.DeleteRecords(t.Context(), trim); err != nil {
		t.Fatal(err)
	}
	_, _, err := drained(t, open, at)
	if !errors.Is(err, connectors.ErrPositionLost) || !strings.Contains(err.Error(), "topic t, partition 0: offsets 5 to 6 were deleted") {
		t.Errorf("%v, want a lost position", err)
	}
	if _, err := o.admin.DeleteTopics(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	o.topic("t", 1)
	if _, _, err = drained(t, open, at); !errors.Is(err, connectors.ErrPositionLost) || !strings.Contains(err.Error(), "made anew") {
		t.Errorf("%v, want a lost position of a topic that was made anew", err)
	}
}

func TestFromLatest(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	o := another(t, brokers)
	o.topic("t", 1)
	o.put("t", 0, "k", "before")
	s, err := reading(t, brokers, func(c *kafka.SourceConfig) { c.From = "latest" })(t.Context(), connectors.NewEnv("in"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	o.put("t", 0, "k", "after")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b, err := s.Read(ctx)
	if err != nil || len(b.Changes) != 1 || string(b.Changes[0].Position) != "t/0/1" || b.Changes[0].Op != connectors.Insert {
		t.Errorf("%v (%v), want the record that came later", b.Changes, err)
	}
}

func TestSourceSettings(t *testing.T) {
	t.Parallel()
	for problem, set := range map[string]func(*kafka.SourceConfig){
		"brokers is missing":   func(c *kafka.SourceConfig) { c.Brokers = nil },
		"topics is missing":    func(c *kafka.SourceConfig) { c.Topics = nil },
		"content is not one":   func(c *kafka.SourceConfig) { c.Content = "x" },
		"table is not a name":  func(c *kafka.SourceConfig) { c.Table = "{table}" },
		"from is not one":      func(c *kafka.SourceConfig) { c.From = "middle" },
		"bad_rows is not one":  func(c *kafka.SourceConfig) { c.BadRows = "x" },
		"refresh must be":      func(c *kafka.SourceConfig) { c.Refresh = 0 },
		"sasl.mechanism is no": func(c *kafka.SourceConfig) { c.SASL = &kafka.SASL{Mechanism: "MD5"} },
	} {
		_, err := kafka.Connector().Source(func(into any) error {
			c := into.(*kafka.SourceConfig)
			c.Brokers, c.Topics = []string{"127.0.0.1:9092"}, []string{"*"}
			set(c)
			return c.Validate()
		})
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v, want %s", err, problem)
		}
	}
}
