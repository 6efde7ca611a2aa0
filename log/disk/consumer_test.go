package disk_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

func openConsumer(t *testing.T, l *disk.Log, o log.ConsumerOptions) log.Consumer {
	t.Helper()
	c, err := l.Consumer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pollValues polls until n records came.
func pollValues(t *testing.T, c log.Consumer, n int) (values []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(values) < n {
		f, err := c.Poll(ctx, n-len(values))
		if err != nil {
			t.Fatalf("poll with %q read: %v", values, err)
		}
		for _, r := range f.Records {
			values = append(values, string(r.Value))
		}
	}
	return values
}

// pollSome polls for a moment, so that the member takes part in a rebalance.
func pollSome(t *testing.T, c log.Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := c.Poll(ctx, 1); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestTopicMadeAnewUnderItsNameIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{})
	appendValues(t, l, orders(0), "old", "older")
	c := openConsumer(t, l, log.ConsumerOptions{Group: "g", Topics: []string{"ord*"}})
	pollValues(t, c, 2)
	if err := c.Commit(t.Context(), log.Offsets{orders(0): 2}); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	createOrders(t, l, log.TopicConfig{})
	if err := c.Commit(t.Context(), log.Offsets{orders(0): 2}); !errors.Is(err, log.ErrNotAssigned) {
		t.Errorf("commit for the topic that is gone: %v, want %v", err, log.ErrNotAssigned)
	}
	appendValues(t, l, orders(0), "new")
	if got := pollValues(t, c, 1); got[0] != "new" {
		t.Errorf("read %q, want new", got)
	}
}

func TestDeletedTopicEndsManualReading(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{})
	c := openConsumer(t, l, log.ConsumerOptions{Partitions: []log.TopicPartition{orders(0)}})
	pollSome(t, c)
	if err := l.DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Poll(t.Context(), 1); !errors.Is(err, log.ErrUnknownTopic) {
		t.Errorf("poll: %v, want %v", err, log.ErrUnknownTopic)
	}
}

// Members come and go; the partitions stay shared out evenly, and those that need not move do not.
func TestAssignmentIsEvenAndMovesLittle(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{Partitions: 8})
	var members []log.Consumer
	settle := func() {
		for range 2 * (len(members) + 1) {
			for _, m := range members {
				pollSome(t, m)
			}
		}
	}
	join := func() {
		members = append(members, openConsumer(t, l, log.ConsumerOptions{Group: "g", Topics: []string{"orders"}}))
		settle()
	}
	check := func(least, most int) {
		t.Helper()
		total := 0
		for _, m := range members {
			n := len(m.Assignment())
			if n < least || n > most {
				t.Errorf("of %d members one has %d partitions, want %d to %d", len(members), n, least, most)
			}
			total += n
		}
		if total != 8 {
			t.Errorf("%d partitions are assigned, want 8", total)
		}
	}
	join()
	check(8, 8)
	join()
	check(4, 4)
	before := members[0].Assignment()
	join()
	check(2, 3)
	for tp := range members[0].Assignment() {
		if _, ok := before[tp]; !ok {
			t.Errorf("the first member got partition %d, which it did not have, although a member joined", tp.Partition)
		}
	}
	if err := members[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	members = append(members[:1], members[2:]...)
	settle()
	check(4, 4)
	groups, err := l.Groups(t.Context())
	if err != nil || len(groups) != 1 || len(groups[0].Members) != 2 {
		t.Errorf("groups are %+v, %v", groups, err)
	}
}

// Compacted holes, batches of aborted records and markers: a reader to the end gets there, and does not spin.
func TestReaderGetsToTheEndThroughHoles(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{BatchBytes: 64, FlushInterval: time.Millisecond})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{Partitions: 2, Compact: true, SegmentBytes: 300})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		for range 3 {
			if err := p.Append(t.Context(), orders(0), log.Record{Key: []byte("k"), Value: make([]byte, 50)}); err != nil {
				t.Fatal(err)
			}
		}
		end := p.Abort
		if i%3 == 0 {
			end = func(ctx context.Context) error { return p.Commit(ctx, []byte("m")) }
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.Maintain(time.Now())
	c := openConsumer(t, l, log.ConsumerOptions{Group: "g", Topics: []string{"orders"}})
	polls, records := 0, 0
	for {
		topic, err := l.Topic(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		pos, end := c.Assignment()[orders(0)], topic.Partitions[0].HighWatermark
		if pos == end && end == 80 { // 60 records and 20 markers
			break
		}
		if pos > end {
			t.Fatalf("the position %d is past the end %d", pos, end)
		}
		f, err := c.Poll(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		polls++
		records += len(f.Records)
	}
	if records < 1 || records > 20 {
		t.Errorf("%d records are left of one key", records)
	}
	if polls > 40 {
		t.Errorf("it took %d polls", polls)
	}
}

func TestClosedLogRefusesCalls(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{})
	createOrders(t, l, log.TopicConfig{})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Append(t.Context(), orders(0), log.Record{Value: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	c := openConsumer(t, l, log.ConsumerOptions{Group: "g", Topics: []string{"orders"}})
	closeLog(t, l)
	_, appendErr := l.Append(t.Context(), orders(0), log.Record{Value: []byte("b")})
	_, pollErr := c.Poll(t.Context(), 1)
	_, _, producerErr := l.Producer(t.Context(), "source")
	for what, err := range map[string]error{
		"append": appendErr, "poll": pollErr, "producer": producerErr, "commit": p.Commit(t.Context(), []byte("m")),
	} {
		if !errors.Is(err, log.ErrClosed) {
			t.Errorf("%s: %v, want %v", what, err, log.ErrClosed)
		}
	}
	closeLog(t, l)
}

// A consumer of many partitions reads ahead in a few of them at a time, and loses no record over it.
func TestManyPartitionsAreReadWhole(t *testing.T) {
	t.Parallel()
	const partitions, each = 40, 50
	l := open(t, t.TempDir(), disk.Options{})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{Partitions: partitions})
	for i := range int32(partitions) {
		var records []log.Record
		for range each {
			records = append(records, log.Record{Value: []byte("v")})
		}
		if _, err := l.Append(t.Context(), orders(i), records...); err != nil {
			t.Fatal(err)
		}
	}
	c := openConsumer(t, l, log.ConsumerOptions{Group: "g", Topics: []string{"orders"}})
	next := log.Offsets{}
	for n := 0; n < partitions*each; {
		f, err := c.Poll(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Records {
			if r.Offset != next[f.TopicPartition] {
				t.Fatalf("partition %d: offset %d follows %d", f.Partition, r.Offset, next[f.TopicPartition]-1)
			}
			next[f.TopicPartition]++
			n++
		}
	}
}

// A reader gets as many records as it asks for, however they were batched, and all of them as they are.
func TestPollReturnsAsManyRecordsAsThereAre(t *testing.T) {
	t.Parallel()
	const total = 2000
	for _, compression := range []log.Compression{log.CompressionNone, log.CompressionZstd} {
		t.Run(compression.String(), func(t *testing.T) {
			t.Parallel()
			l := open(t, t.TempDir(), disk.Options{})
			defer closeLog(t, l)
			createOrders(t, l, log.TopicConfig{Compression: &compression})
			value := func(n int) string { return strings.Repeat(strconv.Itoa(n)+" ", n%40) } // some are empty
			for n, size := 0, 1; n < total; size = size%97 + 12 {
				var records []log.Record
				for range min(size, total-n) {
					records = append(records, log.Record{Value: []byte(value(n)), Headers: []log.Header{{Key: "n", Value: []byte(strconv.Itoa(n))}}})
					n++
				}
				if _, err := l.Append(t.Context(), orders(0), records...); err != nil {
					t.Fatal(err)
				}
			}
			for _, asked := range [][]int{{1}, {10}, {100}, {3, 150, 40, 1, 1, 90}, {total + 1}} {
				c := openConsumer(t, l, log.ConsumerOptions{Partitions: []log.TopicPartition{orders(0)}})
				for n, i := 0, 0; n < total; i++ {
					most := asked[i%len(asked)]
					f, err := c.Poll(t.Context(), most)
					if err != nil {
						t.Fatal(err)
					}
					if want := min(most, total-n); len(f.Records) != want || f.Next != int64(n+want) {
						t.Fatalf("asked for %d at %d: %d records and next %d, want %d", most, n, len(f.Records), f.Next, want)
					}
					for _, r := range f.Records {
						if r.Offset != int64(n) || string(r.Value) != value(n) || len(r.Headers) != 1 || string(r.Headers[0].Value) != strconv.Itoa(n) {
							t.Fatalf("asked for %v: at offset %d stands %d, %q with %v", asked, n, r.Offset, r.Value, r.Headers)
						}
						n++
					}
				}
				if err := c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
