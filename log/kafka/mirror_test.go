package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/kafka"
)

// embedded makes a log with everything that leaves holes: commits, aborts, a compacted topic, groups and marks.
func embedded(t *testing.T) log.Log {
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
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.CreateTopic(t.Context(), "orders", log.TopicConfig{Partitions: 2}))
	must(l.CreateTopic(t.Context(), "_trunkline.schemas", log.TopicConfig{Partitions: 1, Compact: true, Retention: log.Forever}))
	p, _, err := l.Producer(t.Context(), "shop")
	must(err)
	for i := range 30 {
		for part := range int32(2) {
			tp := log.TopicPartition{Topic: "orders", Partition: part}
			for j := range 1 + i%3 {
				must(p.Append(t.Context(), tp, log.Record{Key: []byte{byte(i)}, Value: fmt.Appendf(nil, "%d-%d", i, j), Timestamp: int64(1000 + i),
					Headers: []log.Header{{Key: "h", Value: []byte("v")}}}))
			}
		}
		if i%5 == 4 {
			must(p.Abort(t.Context()))
		} else {
			must(p.Commit(t.Context(), fmt.Appendf(nil, "mark %d", i)))
		}
		if i%7 == 0 {
			_, err := l.Append(t.Context(), log.TopicPartition{Topic: "orders"}, log.Record{Value: []byte("plain")})
			must(err)
			_, err = l.Append(t.Context(), log.TopicPartition{Topic: "_trunkline.schemas"}, log.Record{Key: []byte{byte(i)}, Value: []byte("schema")})
			must(err)
		}
	}
	aged := log.TopicPartition{Topic: "aged"} // retention has taken its oldest records away
	must(l.CreateTopic(t.Context(), aged.Topic, log.TopicConfig{Partitions: 1}))
	for range 50 {
		_, err := l.Append(t.Context(), aged, log.Record{Value: []byte("old")}, log.Record{Value: []byte("old too")})
		must(err)
	}
	_, err = l.RaiseLogStart(aged, 60)
	must(err)
	must(l.SetOffsets(t.Context(), "warehouse", log.Offsets{{Topic: "orders", Partition: 0}: 11, {Topic: "orders", Partition: 1}: 40}))
	must(p.Close(t.Context()))
	return l
}

// all reads everything that committed readers see of a topic.
func all(t *testing.T, l log.Log, name string) []string {
	t.Helper()
	topic, err := l.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, p := range topic.Partitions {
		tp := log.TopicPartition{Topic: name, Partition: int32(i)}
		c, err := l.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
		if err != nil {
			t.Fatal(err)
		}
		for c.Assignment()[tp] < p.HighWatermark {
			f, err := c.Poll(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Records {
				out = append(out, fmt.Sprintf("%d/%d %q %q %d %v", i, r.Offset, r.Key, r.Value, r.Timestamp, r.Headers))
			}
		}
		out = append(out, fmt.Sprintf("%d from %d to %d", i, p.LogStart, p.HighWatermark))
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestMirror(t *testing.T) {
	t.Parallel()
	from := embedded(t)
	to := open(t, kafka.Options{Brokers: cluster(t, 1).Addresses})
	defer to.Close()
	// It is interrupted wherever it may be, and goes on there.
	interrupted := 0
	for wait := 50 * time.Millisecond; ; wait += wait / 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := to.Mirror(ctx, from, kafka.MirrorOptions{Producers: []string{"shop"}})
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		interrupted++
	}
	t.Logf("interrupted %d times", interrupted)
	for range 2 { // the second finds everything there
		done, err := to.Mirror(t.Context(), from, kafka.MirrorOptions{Producers: []string{"shop", "unknown"}})
		if err != nil {
			t.Fatal(err)
		}
		if done.Topics != 3 || done.Groups != 1 || done.Marks != 1 {
			t.Errorf("copied %+v", done)
		}
		for _, name := range []string{"orders", "aged", "_trunkline.schemas"} {
			want, got := all(t, from, name), all(t, to, name)
			if fmt.Sprint(want) != fmt.Sprint(got) {
				t.Fatalf("%s is\n%q\nwant\n%q", name, got, want)
			}
		}
		groups, err := to.Groups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(groups) != 1 || groups[0].Offsets[log.TopicPartition{Topic: "orders"}] != 11 || groups[0].Offsets[log.TopicPartition{Topic: "orders", Partition: 1}] != 40 {
			t.Errorf("groups are %+v", groups)
		}
		p, mark, err := to.Producer(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		if string(mark) != "mark 28" {
			t.Errorf("mark is %q", mark)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
