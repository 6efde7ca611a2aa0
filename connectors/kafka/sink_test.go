package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/kafka"
)

// cluster is a kfake cluster: Kafka's protocol with transactions in the test process. examples/kafka runs the sink on a
// real broker.
func cluster(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

func settings(brokers []string) kafka.SinkConfig {
	return kafka.SinkConfig{Cluster: kafka.Cluster{Brokers: brokers}, Topic: "{topic}", Deletes: "apply"}
}

func opener(t *testing.T, config kafka.SinkConfig) connectors.OpenSink {
	t.Helper()
	open, err := kafka.Connector().Sink(func(into any) error {
		c := into.(*kafka.SinkConfig)
		*c = config
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func sink(t *testing.T, config kafka.SinkConfig) connectors.Transactional {
	t.Helper()
	s, err := opener(t, config)(t.Context(), connectors.NewEnv("mirror"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s.(connectors.Transactional)
}

// records reads what is committed in a topic, to its end.
func records(t *testing.T, brokers []string, topic string) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err == nil && o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal("the end of the topic does not come")
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

// TestSinkConformance runs alone, because it counts goroutines.
func TestSinkConformance(t *testing.T) {
	conformance.RunSink(t, conformance.SinkCase{Late: true, Wide: 100, New: func(t *testing.T) conformance.SinkSystem {
		brokers := cluster(t)
		config := settings(brokers)
		config.Partitions = 1 // the suite reads one order
		return conformance.SinkSystem{Open: opener(t, config), Log: func(t *testing.T, table *connectors.Table) (log []conformance.Entry) {
			for _, r := range records(t, brokers, "shop.item") {
				if e, ok := conformance.ParseLine(t, r.Value, table); ok {
					log = append(log, e)
				}
			}
			return log
		}}
	}})
}

var item = &connectors.Table{Schema: "shop", Name: "item", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Kind: connectors.Int}, {Name: "name", Kind: connectors.Text}}}

func batch(stream string, first int64, changes ...connectors.Change) connectors.Batch {
	for i := range changes {
		changes[i].Table, changes[i].Offset = item, first+int64(i)
	}
	return connectors.Batch{Stream: stream, Changes: changes, Position: strconv.AppendInt(nil, first+int64(len(changes)), 10)}
}

func insert(id int64, name string) connectors.Change {
	return connectors.Change{Op: connectors.Insert, After: []connectors.Value{connectors.IntValue(id), connectors.DataValue(connectors.Text, []byte(name))}}
}

func remove(id int64) connectors.Change {
	return connectors.Change{Op: connectors.Delete, Before: []connectors.Value{connectors.IntValue(id), {}}}
}

func TestKeysTombstonesAndTopics(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	config := settings(brokers)
	config.Topic, config.Tombstones = "copy.{schema}/{table}", true
	if err := sink(t, config).Write(t.Context(), batch("shop.item/0", 0, insert(1, "a"), insert(2, "b"), remove(1))); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, r := range records(t, brokers, "copy.shop_item") {
		value := "tombstone"
		if r.Value != nil {
			value = string(r.Value[strings.Index(string(r.Value), `"op"`):][:8])
		}
		got[string(r.Key)] = append(got[string(r.Key)], value)
	}
	want := map[string][]string{`{"id":1}`: {`"op":"c"`, `"op":"d"`, "tombstone"}, `{"id":2}`: {`"op":"c"`}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("records %v, want %v", got, want)
	}
}

// TestAbandonedWritesAreNotSeen ends writes at any moment and goes on with a new sink from the position that it finds.
func TestAbandonedWritesAreNotSeen(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	next := int64(0)
	for round := 0; next < 200; round++ {
		s := sink(t, settings(brokers))
		position, err := s.Committed(t.Context(), "shop.item/0")
		if err != nil {
			t.Fatal(err)
		}
		if next = 0; position != nil {
			next, _ = strconv.ParseInt(string(position), 10, 64)
		}
		var changes []connectors.Change
		for id := next; id < next+20; id++ {
			changes = append(changes, insert(id, "x"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if round%3 == 1 {
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(round)*100*time.Microsecond)
		}
		_ = s.Write(ctx, batch("shop.item/0", next, changes...)) // what it did, the next round finds out
		cancel()
	}
	seen := map[string]bool{}
	for _, r := range records(t, brokers, "shop.item") {
		if seen[string(r.Key)] {
			t.Errorf("%s came twice", r.Key)
		}
		seen[string(r.Key)] = true
	}
	if int64(len(seen)) < next {
		t.Errorf("%d records before position %d", len(seen), next)
	}
}

func TestStreamsHavePositionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	brokers := cluster(t)
	s := sink(t, settings(brokers))
	for partition := range int64(5) {
		if err := s.Write(t.Context(), batch(fmt.Sprint("shop.item/", partition), partition*10, insert(partition, "x"))); err != nil {
			t.Fatal(err)
		}
	}
	s = sink(t, settings(brokers))
	for partition := range 6 {
		want := strconv.Itoa(partition*10 + 1)
		if partition == 5 {
			want = ""
		}
		if p, err := s.Committed(t.Context(), fmt.Sprint("shop.item/", partition)); err != nil || string(p) != want {
			t.Errorf("position %q of partition %d, %v; want %q", p, partition, err, want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*kafka.SinkConfig){
		"brokers is missing": func(c *kafka.SinkConfig) { c.Brokers = nil },
		"not host:port":      func(c *kafka.SinkConfig) { c.Brokers = []string{"x"} },
		"topic is empty":     func(c *kafka.SinkConfig) { c.Topic = "" },
		"partitions and":     func(c *kafka.SinkConfig) { c.Partitions = -1 },
		"deletes is not":     func(c *kafka.SinkConfig) { c.Deletes = "soft" },
		"sasl.mechanism":     func(c *kafka.SinkConfig) { c.SASL = &kafka.SASL{Mechanism: "GSSAPI"} },
		"tls is not":         func(c *kafka.SinkConfig) { c.TLS.TLS = "on" },
	} {
		c := settings([]string{"x:9092"})
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestBrokersThatAreGone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := opener(t, settings([]string{"127.0.0.1:1"}))(ctx, connectors.NewEnv("mirror")); err == nil || errors.Is(err, connectors.ErrFatal) {
		t.Errorf("open: %v, want an error that is tried again", err)
	}
}
