package disk_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

// crashEnv makes the test binary the child of TestKilledProcess: it holds the log's directory.
const crashEnv = "TRUNKLINE_DISK_CRASH_DIR"

const crashPartitions = 3

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		if err := crashChild(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// crashChild commits numbered records until it is killed. The mark is the number that comes next. It tells each mark
// that was acknowledged, and what a consumer group read and committed.
func crashChild(dir string) error {
	ctx := context.Background()
	l, err := disk.Open(dir, disk.Options{BatchBytes: 2 << 10, TransactionBytes: 8 << 10, FlushInterval: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	err = l.CreateTopic(ctx, "numbers", log.TopicConfig{Partitions: crashPartitions, SegmentBytes: 64 << 10})
	if err != nil && !errors.Is(err, log.ErrTopicExists) {
		return err
	}
	p, mark, err := l.Producer(ctx, "counter")
	if err != nil {
		return err
	}
	next := 0
	if mark != nil {
		if next, err = strconv.Atoi(string(mark)); err != nil {
			return err
		}
	}
	fmt.Println("open", next)
	rng := rand.New(rand.NewPCG(uint64(next), 7))
	for {
		n := 1 + rng.IntN(5)
		if rng.IntN(10) == 0 {
			n = 500
		}
		for i := range n {
			tp := log.TopicPartition{Topic: "numbers", Partition: int32(rng.IntN(crashPartitions))}
			if err := p.Append(ctx, tp, log.Record{Value: fmt.Appendf(nil, "%d %064d", next+i, i)}); err != nil {
				return err
			}
		}
		if rng.IntN(8) == 0 {
			if err := p.Abort(ctx); err != nil {
				return err
			}
			continue
		}
		next += n
		if err := p.Commit(ctx, strconv.AppendInt(nil, int64(next), 10)); err != nil {
			return err
		}
		fmt.Println("acked", next)
	}
}

func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	meaning := map[log.TopicPartition]map[int64]string{}
	for round := range 8 {
		acked := runUntilKilled(t, dir, 20+rng.IntN(150))
		mark, values := readNumbers(t, dir, meaning)
		if mark < acked {
			t.Fatalf("round %d: the mark is %d, %d was acknowledged", round, mark, acked)
		}
		if len(values) != mark {
			t.Fatalf("round %d: %d numbers are in the log, the mark says %d", round, len(values), mark)
		}
		for v, n := range values {
			if n != 1 || v >= mark {
				t.Fatalf("round %d: %d is in the log %d times, the mark is %d", round, v, n, mark)
			}
		}
	}
}

// runUntilKilled runs the child until it has acknowledged that many commits, and kills it in the middle of what comes
// then.
func runUntilKilled(t *testing.T, dir string, commits int) (acked int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if word == "error" {
			t.Fatalf("child: %s", rest)
		}
		if acked, err = strconv.Atoi(rest); err != nil {
			t.Fatal(err)
		}
		if n++; n == commits {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	return acked
}

// readNumbers opens the log, reads all committed numbers, and compares what each offset means with earlier rounds.
func readNumbers(t *testing.T, dir string, meaning map[log.TopicPartition]map[int64]string) (mark int, values map[int]int) {
	t.Helper()
	l := open(t, dir, disk.Options{})
	defer closeLog(t, l)
	p, raw, err := l.Producer(t.Context(), "counter")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if mark, err = strconv.Atoi(string(raw)); err != nil {
		t.Fatal(err)
	}
	values = map[int]int{}
	for i := range int32(crashPartitions) {
		tp := log.TopicPartition{Topic: "numbers", Partition: i}
		known := meaning[tp]
		now := map[int64]string{}
		for _, r := range readPartition(t, l, tp) {
			word, _, _ := strings.Cut(string(r.Value), " ")
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			values[n]++
			now[r.Offset] = word
		}
		for offset, word := range known {
			if now[offset] != word {
				t.Fatalf("%s-%d: offset %d was %s and is %q now", tp.Topic, tp.Partition, offset, word, now[offset])
			}
		}
		meaning[tp] = now
	}
	return mark, values
}

func closeLog(t *testing.T, l *disk.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// readPartition returns copies of all committed records.
func readPartition(t *testing.T, l log.Log, tp log.TopicPartition) []log.Record {
	t.Helper()
	c, err := l.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	topic, err := l.Topic(t.Context(), tp.Topic)
	if err != nil {
		t.Fatal(err)
	}
	var out []log.Record
	for c.Assignment()[tp] < topic.Partitions[tp.Partition].LastStable {
		f, err := c.Poll(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Records {
			r.Key, r.Value, r.Headers = clone(r.Key), clone(r.Value), nil
			out = append(out, r)
		}
	}
	return out
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// Without the side files of sealed segments an open finds the transactions in the batches.
func TestMissingSnapshotIsMadeUpFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := disk.Options{BatchBytes: 100}
	l := open(t, dir, o)
	createOrders(t, l, log.TopicConfig{SegmentBytes: 600})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := p.Append(t.Context(), orders(0), log.Record{Value: fmt.Appendf(nil, "%d %080d", i, i)}); err != nil {
			t.Fatal(err)
		}
		switch i % 8 {
		case 2:
			err = p.Commit(t.Context(), []byte("m"))
		case 6:
			err = p.Abort(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := readPartition(t, l, orders(0))
	closeLog(t, l)
	removed := 0
	for _, pattern := range []string{"*.snapshot", "*.txnindex"} {
		files, err := filepath.Glob(filepath.Join(dir, "orders-0", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			removed++
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if removed < 3 {
		t.Fatalf("%d side files were there", removed)
	}
	l = open(t, dir, o)
	defer closeLog(t, l)
	if after := readPartition(t, l, orders(0)); fmt.Sprint(after) != fmt.Sprint(before) || len(after) == 0 {
		t.Errorf("%d records are readable, want %d as before", len(after), len(before))
	}
}
