package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

const (
	fetchBytes = 8 << 20     // of an answer; records that are larger come alone
	fetchTime  = time.Second // that a broker may wait for records, and new partitions for it
	lagTime    = time.Second // between two writes of the offsets for those who watch the lag
)

// source is used by one goroutine; Ack may run beside Read, and one more writes offsets to the cluster.
type source struct {
	config *SourceConfig
	env    connectors.Env
	limits connectors.Limits
	admin  *kadm.Client
	look   *kgo.Client // for everything but records
	client *kgo.Client // nil: no partition yet
	tables *document.Tables
	at     position
	fresh  bool    // a first start
	stop   offsets // a bounded reading: where the partitions ended when it began
	due    time.Time
	queue  []*kgo.Record // fetched and not handed over
	batch  []connectors.Change
	arena  []byte
	last   map[string]deleted // by topic
	bad    int64

	mu    sync.Mutex
	acked offsets // guarded by mu; nil: nothing new
	wake  chan struct{}
	quit  context.CancelFunc
	done  chan struct{}
}

// deleted is the delete that a tombstone may follow.
type deleted struct {
	partition int32
	offset    int64
	key       string
}

func openSource(ctx context.Context, c *SourceConfig, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	at, err := parsePosition(from)
	if err != nil {
		return nil, err
	}
	tables, err := document.New(&c.Settings, at.Tables)
	if err != nil {
		return nil, err
	}
	look, err := c.client()
	if err != nil {
		return nil, err
	}
	s := &source{
		config: c, env: env, limits: env.Limits.WithDefaults(), look: look, admin: kadm.NewClient(look), tables: tables, at: at, fresh: from == nil,
		last: map[string]deleted{}, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if env.Once {
		s.stop = offsets{}
	}
	if err := s.refresh(ctx); err != nil {
		s.release()
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	lag, quit := context.WithCancel(context.Background())
	s.quit = quit
	go s.tell(lag)
	return s, nil
}

func (s *source) release() {
	if s.client != nil {
		s.client.Close()
	}
	s.look.Close()
}

// refresh takes up partitions that are new. Those that were there at the first start begin where the settings say, and later
// ones at their beginning.
func (s *source) refresh(ctx context.Context) error {
	s.due = time.Now().Add(s.config.Refresh)
	topics, err := s.config.list(ctx, s.admin)
	if err != nil {
		return err
	}
	e, err := endsOf(ctx, s.admin, topics)
	if err != nil {
		return err
	}
	first := s.client == nil
	add := map[string]map[int32]kgo.Offset{}
	for topic, partitions := range topics {
		for _, p := range partitions {
			next, known := s.at.Next.get(topic, p)
			if known && !first {
				continue
			}
			if !known {
				next = s.begin(e, topic, p)
				s.at.Next.set(topic, p, next)
			}
			if err := e.verify(topic, p, next); err != nil {
				return err
			}
			if s.stop != nil {
				last, _ := e.last.get(topic, p)
				s.stop.set(topic, p, last)
			}
			if add[topic] == nil {
				add[topic] = map[int32]kgo.Offset{}
			}
			add[topic][p] = kgo.NewOffset().At(next)
		}
	}
	s.fresh = false
	if len(add) == 0 {
		return nil
	}
	if s.client != nil {
		s.client.AddConsumePartitions(add)
		return nil
	}
	s.client, err = s.config.client(kgo.ConsumePartitions(add), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(fetchTime), kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes/4))
	return err
}

// begin returns where a partition begins that was not read before.
func (s *source) begin(e ends, topic string, partition int32) int64 {
	first, _ := e.first.get(topic, partition)
	last, _ := e.last.get(topic, partition)
	if !s.fresh {
		return first
	}
	if s.config.From == fromLatest {
		return last
	}
	if first < last {
		s.at.Until.set(topic, partition, last)
	}
	return first
}

// Read returns the rows of the next records.
func (s *source) Read(ctx context.Context) (connectors.Batch, error) {
	s.batch, s.arena = s.batch[:0], s.arena[:0]
	for {
		if err := ctx.Err(); err != nil {
			return connectors.Batch{}, err
		}
		if len(s.queue) > 0 {
			return s.take()
		}
		if s.ended() {
			s.env.Report(connectors.Report{Phase: connectors.PhaseDone})
			return connectors.Batch{}, io.EOF
		}
		moved, err := s.poll(ctx)
		if err != nil {
			return connectors.Batch{}, err
		}
		if moved {
			return s.take()
		}
	}
}

// ended reports that a bounded reading has come to its end.
func (s *source) ended() bool {
	if s.stop == nil {
		return false
	}
	for topic, list := range s.stop {
		for partition, end := range list {
			if next, _ := s.at.Next.get(topic, partition); next < end {
				return false
			}
		}
	}
	return true
}

// poll waits for records, and no longer than until partitions are looked for again. It reports whether the reading moved on
// without one.
func (s *source) poll(ctx context.Context) (moved bool, err error) {
	wait := time.Until(s.due)
	if s.stop != nil {
		wait = probeTime
	}
	if wait <= 0 {
		if err := s.refresh(ctx); err != nil {
			return false, fmt.Errorf("look for partitions: %w", err)
		}
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if s.client == nil {
		<-limited.Done()
		return false, ctx.Err()
	}
	fetches := s.client.PollRecords(limited, s.limits.BatchRows)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	var failed error
	fetches.EachError(func(topic string, partition int32, err error) {
		switch {
		case failed != nil, errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, kerr.OffsetOutOfRange), isLoss(err):
			next, _ := s.at.Next.get(topic, partition)
			failed = fmt.Errorf("read topic %s, partition %d: offset %d is not there any more (retention, or the topic was made anew): %w", topic, partition, next, connectors.ErrPositionLost)
		default:
			failed = fmt.Errorf("read topic %s, partition %d: %w", topic, partition, translate(err))
		}
	})
	s.queue = fetches.Records()
	if failed != nil && len(s.queue) == 0 {
		return false, failed
	}
	if s.stop != nil && len(s.queue) == 0 && limited.Err() != nil {
		return s.passHoles(ctx)
	}
	return false, nil
}

func isLoss(err error) bool {
	var loss *kgo.ErrDataLoss
	return errors.As(err, &loss)
}

// take makes rows of the queue, up to the limits of a batch.
func (s *source) take() (connectors.Batch, error) {
	size := 0
	for len(s.queue) > 0 && len(s.batch) < s.limits.BatchRows && size < s.limits.BatchBytes {
		r := s.queue[0]
		s.queue = s.queue[1:]
		end, bounded := s.stop.get(r.Topic, r.Partition)
		if bounded && r.Offset+1 >= end {
			s.client.PauseFetchPartitions(map[string][]int32{r.Topic: {r.Partition}})
		}
		if bounded && r.Offset >= end {
			s.at.Next.set(r.Topic, r.Partition, end) // it came after the reading began, and nothing is left before it
			continue
		}
		size += len(r.Key) + len(r.Value)
		s.at.Next.set(r.Topic, r.Partition, r.Offset+1)
		if !r.Attrs.IsControl() {
			if err := s.record(r); err != nil {
				return connectors.Batch{}, err
			}
		}
		if until, ok := s.at.Until.get(r.Topic, r.Partition); ok && r.Offset+1 >= until {
			s.at.Until.remove(r.Topic, r.Partition)
		}
	}
	tables, err := s.tables.State()
	if err != nil {
		return connectors.Batch{}, fmt.Errorf("format position: %w", err)
	}
	p := s.at
	p.Version, p.Tables = positionVersion, tables
	b, err := json.Marshal(p)
	if err != nil {
		return connectors.Batch{}, fmt.Errorf("format position: %w", err)
	}
	return connectors.Batch{Changes: s.batch, Position: b}, nil
}

// Ack notes the offsets for those who watch the lag.
func (s *source) Ack(ctx context.Context, p connectors.Position) error {
	at, err := parsePosition(p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.acked = at.Next
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return ctx.Err()
}

// tell writes the newest offsets to the cluster from time to time, and once more at the end. That it cannot stops nothing.
func (s *source) tell(ctx context.Context) {
	defer close(s.done)
	if s.config.Group == noGroup {
		return
	}
	warned := false
	commit := func() {
		if err := s.commit(); err != nil && !warned {
			warned = true
			s.env.Logger.Warn("offsets are not written for those who watch the lag", "source", s.env.Name, "group", s.group(), "error", err)
		}
	}
	defer commit()
	for ctx.Err() == nil {
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
		commit()
		timer := time.NewTimer(lagTime)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (s *source) group() string {
	if s.config.Group != "" {
		return s.config.Group
	}
	return "trunkline-" + s.env.Name
}

func (s *source) commit() error {
	s.mu.Lock()
	next := s.acked
	s.acked = nil
	s.mu.Unlock()
	if next == nil {
		return nil
	}
	list := kadm.Offsets{}
	for topic, partitions := range next {
		for partition, at := range partitions {
			list.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1})
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime/6)
	defer cancel()
	return s.admin.CommitAllOffsets(ctx, s.group(), list)
}

// Close ends all connections.
func (s *source) Close(context.Context) error {
	s.quit()
	<-s.done
	s.release()
	return nil
}
