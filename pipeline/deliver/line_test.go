package deliver_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/deliver"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var items = &connectors.Table{
	Database: "shop", Schema: "public", Name: "item", Key: []int{0},
	Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}, {Name: "v", Kind: connectors.Text}},
}

const itemTopic = "shop.public.item"

func text(s string) connectors.Value { return connectors.DataValue(connectors.Text, []byte(s)) }

func row(id int, v string) []connectors.Value {
	return []connectors.Value{connectors.IntValue(int64(id)), text(v)}
}

func insert(id int, v string) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: items, After: row(id, v), Time: time.Now()}
}

func remove(id int) connectors.Change {
	return connectors.Change{Op: connectors.Delete, Table: items, Before: []connectors.Value{connectors.IntValue(int64(id)), {}}}
}

func rekey(from, to int, v string) connectors.Change {
	return connectors.Change{Op: connectors.Update, Table: items, Before: []connectors.Value{connectors.IntValue(int64(from)), {}}, After: row(to, v)}
}

// lackingRekey is a rekey that does not carry the other column.
func lackingRekey(from, to int) connectors.Change {
	c := rekey(from, to, "")
	c.After[1] = connectors.Value{}
	return c
}

func truncate() connectors.Change { return connectors.Change{Op: connectors.Truncate, Table: items} }

// line is a source, a log and a sink in one process.
type line struct {
	t       testing.TB
	log     log.Log
	schemas *codec.Schemas
	feed    *memory.Feed
	store   *memory.Store
	topics  log.TopicConfig
}

func newLine(t testing.TB) *line {
	t.Helper()
	return newLineWith(t, disk.Options{})
}

func newLineWith(t testing.TB, o disk.Options) *line {
	t.Helper()
	l, err := disk.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := &line{t: t, log: l, schemas: codec.NewSchemas(l), feed: memory.NewFeed(), store: memory.NewStore()}
	t.Cleanup(func() {
		if err := s.schemas.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ingest carries what the feed holds now into the log.
func (s *line) ingest() {
	s.t.Helper()
	g, err := ingest.New(ingest.Options{Source: "shop", Connector: "memory", Open: s.feed.Open, Journal: s.log, Schemas: s.schemas, Topics: s.topics, Once: true})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := g.Run(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// options of a delivery that ends at the present end of the log.
func (s *line) options() deliver.Options {
	return deliver.Options{
		Sink: "target", Topics: []string{"shop.*"}, Open: s.store.Open, Journal: s.log, Schemas: s.schemas,
		Until: func() log.Offsets { return s.ends(s.log) },
	}
}

func (s *line) ends(l log.Log) log.Offsets {
	topics, err := l.Topics(context.Background())
	if err != nil {
		s.t.Error(err)
	}
	ends := log.Offsets{}
	for _, topic := range topics {
		for i, p := range topic.Partitions {
			ends[log.TopicPartition{Topic: topic.Name, Partition: int32(i)}] = p.LastStable
		}
	}
	return ends
}

func (s *line) deliver(o deliver.Options) (*deliver.Deliver, error) {
	s.t.Helper()
	d, err := deliver.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return d, d.Run(s.t.Context())
}

func (s *line) mustDeliver(o deliver.Options) *deliver.Deliver {
	s.t.Helper()
	d, err := s.deliver(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// rows returns id to v of the target.
func (s *line) rows() map[string]string { return rowsOf(s.store) }

func rowsOf(store *memory.Store) map[string]string {
	out := map[string]string{}
	for _, r := range store.Rows("public.item") {
		out[r["id"]] = r["v"]
	}
	return out
}

func (s *line) want(want map[string]string) {
	s.t.Helper()
	if got := s.rows(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("target holds %v, want %v", got, want)
	}
}

// records reads what committed readers see of a topic.
func (s *line) records(name string) []log.Record {
	s.t.Helper()
	topic, err := s.log.Topic(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []log.Record
	for i := range topic.Partitions {
		out = append(out, s.recordsOf(log.TopicPartition{Topic: name, Partition: int32(i)})...)
	}
	return out
}

// recordsOf reads what committed readers see of a partition.
func (s *line) recordsOf(tp log.TopicPartition) []log.Record {
	s.t.Helper()
	topic, err := s.log.Topic(s.t.Context(), tp.Topic)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := s.log.Consumer(s.t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []log.Record
	p := topic.Partitions[tp.Partition]
	for next := p.LogStart; next < p.LastStable; {
		f, err := c.Poll(s.t.Context(), 0)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range f.Records {
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			for j := range r.Headers {
				r.Headers[j].Value = bytes.Clone(r.Headers[j].Value)
			}
			out = append(out, r)
		}
		next = f.Next
	}
	if err := c.Close(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// numbered returns id to "v" for the ids from low to below high.
func numbered(low, high int) map[string]string {
	out := map[string]string{}
	for id := low; id < high; id++ {
		out[strconv.Itoa(id)] = "v"
	}
	return out
}
