package disk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

func partitionOf(t *testing.T, l *disk.Log, topic string) log.Partition {
	t.Helper()
	d, err := l.Topic(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return d.Partitions[0]
}

// smallSegments makes a segment of every record.
var smallSegments = log.TopicConfig{SegmentBytes: 100, Retention: time.Hour}

func appendStamped(t *testing.T, l *disk.Log, stamp time.Time, values ...string) {
	t.Helper()
	for _, v := range values {
		if _, err := l.Append(t.Context(), orders(0), log.Record{Key: []byte(v), Value: []byte(v), Timestamp: stamp.UnixMilli()}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRetentionCountsFromTheAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, disk.Options{})
	createOrders(t, l, smallSegments)
	now := time.Now()
	appendStamped(t, l, time.Date(2096, 1, 1, 0, 0, 0, 0, time.UTC), "from 2096")
	appendStamped(t, l, now, "a", "b")
	appendStamped(t, l, now.AddDate(-2, 0, 0), "backfill", "backfill too")
	l.Maintain(now.Add(30 * time.Minute))
	l.Maintain(now.AddDate(0, 0, -1))
	wantValues(t, l, orders(0), "from 2096", "a", "b", "backfill", "backfill too")
	l.Maintain(now.Add(2 * time.Hour))
	if p := partitionOf(t, l, "orders"); p.LogStart != 5 || p.HighWatermark != 5 || p.Segments != 1 || p.Bytes != 0 {
		t.Errorf("partition after retention is %+v, want it empty at offset 5", p)
	}
	closeLog(t, l)
	l = open(t, dir, disk.Options{})
	defer closeLog(t, l)
	offset, err := l.Append(t.Context(), orders(0), log.Record{Value: []byte("next")})
	if err != nil {
		t.Fatal(err)
	}
	if offset != 5 {
		t.Errorf("the emptied partition goes on at offset %d, want 5", offset)
	}
}

func TestRetentionWaitsForConfiguredGroups(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{})
	defer closeLog(t, l)
	createOrders(t, l, smallSegments)
	l.SetProtected(map[string][]string{"warehouse": {"ord*"}, "other": {"customers"}})
	appendValues(t, l, orders(0), "a", "b", "c", "d")
	late := time.Now().Add(2 * time.Hour)
	l.Maintain(late)
	if p := partitionOf(t, l, "orders"); p.LogStart != 0 {
		t.Fatalf("retention went to %d before the group had read", p.LogStart)
	}
	if err := l.SetOffsets(t.Context(), "warehouse", log.Offsets{orders(0): 2}); err != nil {
		t.Fatal(err)
	}
	l.Maintain(late)
	if p := partitionOf(t, l, "orders"); p.LogStart != 2 {
		t.Errorf("the log starts at %d, want 2, which the group has not read", p.LogStart)
	}
	if n := l.Counters.RetentionForced.Load(); n != 0 {
		t.Errorf("%d offsets are counted as removed by force", n)
	}
}

// A sink that stopped at an offset that is gone hears which records it missed, and stays there until it is told.
func TestConsumerOvertakenByRetentionIsToldWhatIsGone(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{SegmentBytes: 100, RetentionBytes: 250, Retention: log.Forever})
	l.SetProtected(map[string][]string{"warehouse": {"*"}})
	if err := l.SetOffsets(t.Context(), "warehouse", log.Offsets{orders(0): 1}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		appendValues(t, l, orders(0), "0123456789012345678901234567890")
	}
	l.Maintain(time.Now())
	p := partitionOf(t, l, "orders")
	if p.LogStart < 5 || p.Bytes > 350 {
		t.Fatalf("partition is %+v, want it cut to about 250 bytes", p)
	}
	if n := l.Counters.RetentionForced.Load(); n != p.LogStart-1 {
		t.Errorf("%d offsets are counted as removed by force, want %d", n, p.LogStart-1)
	}
	c, err := l.Consumer(t.Context(), log.ConsumerOptions{Group: "warehouse", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Poll(t.Context(), 10)
	var gap *log.OutOfRangeError
	if !errors.As(err, &gap) || gap.Offset != 1 || gap.LogStart != p.LogStart {
		t.Fatalf("poll: %v, want offsets 1 to %d gone", err, p.LogStart-1)
	}
	if got := c.Assignment()[orders(0)]; got != 1 {
		t.Errorf("position is %d after the gap, want 1 as before", got)
	}
	if err := c.Seek(orders(0), gap.LogStart); err != nil {
		t.Fatal(err)
	}
	f, err := c.Poll(t.Context(), 1)
	if err != nil || f.Records[0].Offset != p.LogStart {
		t.Errorf("poll after seek: %v, %v", f, err)
	}
}

func TestOpenTransactionIsNotRemoved(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{BatchBytes: 64})
	defer closeLog(t, l)
	createOrders(t, l, smallSegments)
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"a", "b", "c"} {
		if err := p.Append(t.Context(), orders(0), log.Record{Value: []byte(v + " is long enough to be written before the commit comes")}); err != nil {
			t.Fatal(err)
		}
	}
	l.Maintain(time.Now().Add(2 * time.Hour))
	if err := p.Commit(t.Context(), []byte("m")); err != nil {
		t.Fatal(err)
	}
	if n := len(readPartition(t, l, orders(0))); n != 3 {
		t.Errorf("%d records are left, want 3", n)
	}
}
