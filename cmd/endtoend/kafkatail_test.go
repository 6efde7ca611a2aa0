package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/kafka"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/broker"
	"github.com/trunkline/trunkline/log/disk"
)

// TestOnceReadsTopicsToWhereTheyEnded reads topics whose ends hold no record: the marker of a transaction, one that was given
// up, and such a one behind what compaction has emptied. What comes while the reading goes on is left for the next one.
func TestOnceReadsTopicsToWhereTheyEnded(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	journal, err := disk.Open(t.TempDir(), disk.Options{MaintenanceInterval: 20 * time.Millisecond, TombstoneRetention: time.Nanosecond})
	must(err)
	defer func() { must(journal.Close()) }()
	server, err := broker.Listen(journal, broker.Options{Address: "127.0.0.1:0"})
	must(err)
	defer func() { must(server.Close()) }()
	for name, c := range map[string]log.TopicConfig{
		"marked": {Partitions: 1}, "given.up": {Partitions: 1},
		"emptied": {Partitions: 1, Compact: true, SegmentBytes: 1, SegmentAge: time.Millisecond},
	} {
		must(journal.CreateTopic(t.Context(), name, c))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(server.Addr().String()), kgo.TransactionalID("theirs"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	defer client.Close()
	transaction := func(topic string, end kgo.TransactionEndTry, records ...*kgo.Record) {
		t.Helper()
		must(client.BeginTransaction())
		for _, r := range records {
			r.Topic = topic
			must(client.ProduceSync(t.Context(), r).FirstErr())
		}
		must(client.EndTransaction(t.Context(), end))
	}
	record := func(key, value string) *kgo.Record {
		r := &kgo.Record{Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	transaction("marked", kgo.TryCommit, record("a", "1"), record("b", "2"))
	transaction("given.up", kgo.TryCommit, record("a", "1"))
	transaction("given.up", kgo.TryAbort, record("a", "never"))
	transaction("emptied", kgo.TryCommit, record("a", "1"))
	transaction("emptied", kgo.TryCommit, record("b", "1"), record("b", ""))
	transaction("emptied", kgo.TryAbort, record("a", "never")) // what is before it is in a segment of its own, which is compacted
	eventually(t, "compaction has emptied the end of the topic", func() bool { return len(left(t, journal, "emptied")) == 1 })

	open, err := kafka.Connector().Source(func(into any) error {
		c := into.(*kafka.SourceConfig)
		c.Brokers, c.Topics, c.Group = []string{server.Addr().String()}, []string{"marked", "given.up", "emptied"}, "off"
		return c.Validate()
	})
	must(err)
	env := connectors.NewEnv("in")
	env.Once = true
	read := func(at connectors.Position, meanwhile func()) (n int, end connectors.Position) {
		t.Helper()
		s, err := open(t.Context(), env, at)
		must(err)
		defer func() { must(s.Close(context.Background())) }()
		meanwhile()
		for {
			b, err := s.Read(t.Context())
			if errors.Is(err, io.EOF) {
				return n, at
			}
			must(err)
			n += len(b.Changes)
			if b.Position != nil {
				at = bytes.Clone(b.Position)
			}
		}
	}
	ends := func() map[string]int64 {
		out := map[string]int64{}
		for _, name := range []string{"marked", "given.up", "emptied"} {
			topic, err := journal.Topic(t.Context(), name)
			must(err)
			out[name] = topic.Partitions[0].LastStable
		}
		return out
	}
	wantAt := func(at connectors.Position, want map[string]int64) {
		t.Helper()
		var p struct{ Next map[string]map[string]int64 }
		must(json.Unmarshal(at, &p))
		for name, end := range want {
			if got := p.Next[name]["0"]; got != end {
				t.Errorf("%s was read to offset %d, want %d, where it ended", name, got, end)
			}
		}
	}
	first := ends()
	n, at := read(nil, func() { transaction("marked", kgo.TryCommit, record("c", "3")) })
	if n != 4 {
		t.Errorf("%d records came, want 4: those that were there when it began", n)
	}
	wantAt(at, first)
	second := ends()
	n, at = read(at, func() {})
	if n != 1 {
		t.Errorf("%d records came to the next reading, want the one that was left", n)
	}
	wantAt(at, second)
}

// left returns the records that committed readers see of a topic with one partition.
func left(t *testing.T, journal log.Log, name string) (out []log.Record) {
	t.Helper()
	topic, err := journal.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	tp := log.TopicPartition{Topic: name}
	c, err := journal.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for next := topic.Partitions[0].LogStart; next < topic.Partitions[0].LastStable; {
		f, err := c.Poll(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Records...)
		next = f.Next
	}
	return out
}
