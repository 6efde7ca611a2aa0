package endtoend

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// served is a log that is served alone, as a process that can be killed and started again at the same address.
type served struct {
	t       *testing.T
	dir     string
	address string
	cmd     *exec.Cmd
}

func (s *served) start() {
	s.t.Helper()
	s.cmd = exec.Command(program(s.t), "serve", "--dir", "log", "--listen", s.address, "--log", "plain")
	s.cmd.Dir = s.dir
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// TestKilledLogLosesAndRepeatsNothing kills the log under an idempotent producer and under one that moves records in
// transactions. Each number that was acknowledged is there once, and each number that was read is moved once.
func TestKilledLogLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := &served{t: t, dir: t.TempDir(), address: freeAddress(t)}
	s.start()
	t.Cleanup(func() { s.kill() })
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	var work sync.WaitGroup
	var acked atomic.Int64
	stop := make(chan struct{})
	work.Go(func() { acked.Store(int64(produceNumbers(t, s.address, stop))) })
	moving, endMoving := context.WithCancel(ctx)
	var moved sync.WaitGroup
	moved.Go(func() { moveNumbers(moving, t, s.address) })
	for range 5 {
		time.Sleep(700 * time.Millisecond) // the kill comes at any moment, in the middle of whatever is under way
		s.kill()
		s.start()
	}
	close(stop)
	work.Wait()
	total := int(acked.Load())
	if total < 100 {
		t.Fatalf("only %d numbers were written", total)
	}
	for topic, level := range map[string]kgo.IsolationLevel{"numbers": kgo.ReadUncommitted(), "moved": kgo.ReadCommitted()} {
		seen := readNumbers(ctx, t, s.address, topic, level, total)
		for n := range total {
			if seen[fmt.Sprint(n)] != 1 {
				t.Fatalf("%s: %d is there %d times, of %d", topic, n, seen[fmt.Sprint(n)], total)
			}
		}
	}
	endMoving()
	moved.Wait()
}

// produceNumbers writes 0, 1, 2 … until stop and returns how many; all were acknowledged.
func produceNumbers(t *testing.T, address string, stop chan struct{}) int {
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic("numbers"), kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(-1), kgo.ProducerLinger(2*time.Millisecond), kgo.DisableClientMetrics())
	if err != nil {
		t.Error(err)
		return 0
	}
	defer c.Close()
	for n := 0; ; n++ {
		select {
		case <-stop:
			if err := c.Flush(t.Context()); err != nil {
				t.Errorf("flush: %v", err)
			}
			return n
		default:
		}
		c.Produce(t.Context(), kgo.KeyStringRecord(fmt.Sprint(n), fmt.Sprint(n)), func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("a record was not acknowledged: %v", err)
			}
		})
		if n%50 == 0 {
			time.Sleep(time.Millisecond) // a steady stream and not a full queue
		}
	}
}

// moveNumbers moves records in transactions, with a new client whenever one does not go on.
func moveNumbers(ctx context.Context, t *testing.T, address string) {
	for ctx.Err() == nil {
		s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(address), kgo.TransactionalID("mover"), kgo.ConsumerGroup("mover"), kgo.ConsumeTopics("numbers"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AllowAutoTopicCreation(), kgo.DisableClientMetrics(), kgo.RetryTimeout(5*time.Second),
			kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(200*time.Millisecond), kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond))
		if err != nil {
			t.Error(err)
			return
		}
		for ctx.Err() == nil {
			if err := moveSome(ctx, s); err != nil {
				t.Logf("the mover begins anew: %v", err)
				break
			}
		}
		s.Close()
	}
}

func moveSome(ctx context.Context, s *kgo.GroupTransactSession) error {
	f := s.PollRecords(ctx, 200)
	if f.NumRecords() == 0 {
		return nil
	}
	if err := s.Begin(); err != nil {
		return err
	}
	var failed kgo.FirstErrPromise
	f.EachRecord(func(r *kgo.Record) {
		s.Produce(ctx, &kgo.Record{Topic: "moved", Key: r.Key, Value: r.Value}, failed.Promise())
	})
	good := failed.Err() == nil
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := s.End(limited, kgo.TransactionEndTry(good))
	return err
}

// readNumbers reads a topic until every number came, and counts.
func readNumbers(ctx context.Context, t *testing.T, address, topic string, level kgo.IsolationLevel, total int) map[string]int {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(level), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seen := map[string]int{}
	for len(seen) < total {
		f := c.PollFetches(ctx)
		if ctx.Err() != nil {
			var missing []string
			for n := range total {
				if seen[fmt.Sprint(n)] == 0 {
					missing = append(missing, fmt.Sprint(n))
				}
			}
			t.Fatalf("%s: %d of %d numbers came; missing %s", topic, len(seen), total, strings.Join(missing[:min(5, len(missing))], ", "))
		}
		f.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	return seen
}
