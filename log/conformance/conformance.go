// Package conformance is the suite that every backend of package log passes.
//
// It promises to use nothing but the contract, to name its own topics, groups and producers so that it can run against a
// shared cluster, and to wait for conditions instead of for time. It does not test crashes, retention or what a backend's
// files look like; those are the backend's own tests. The tests of log/disk and of the cluster backend call it.
package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
)

// Features says what a backend can do beside the contract.
type Features struct {
	// Reopen closes the log and opens it again on the same data. nil: the tests of what survives are skipped.
	Reopen func(t *testing.T, l log.Log) log.Log
}

// patience bounds every wait of the suite, so that a lost wake-up fails a test instead of hanging it.
const patience = 2 * time.Minute

// Run runs the suite. open returns a log that the suite closes; every subtest opens one of its own.
func Run(t *testing.T, open func(t *testing.T) log.Log, f Features) {
	for _, part := range []struct {
		name  string
		cases []testCase
	}{
		{"topics", topicCases},
		{"append", appendCases},
		{"producer", producerCases},
		{"consumer", consumerCases},
		{"group", groupCases},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range part.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if c.reopens && f.Reopen == nil {
						t.Skip("this backend cannot be reopened")
					}
					s := newSuite(t, open(t), f)
					c.run(s)
				})
			}
		})
	}
}

type testCase struct {
	name    string
	reopens bool
	run     func(s *suite)
}

// suite is the state of one test case.
type suite struct {
	*testing.T
	log      log.Log
	features Features
	unique   string
	ctx      context.Context
}

func newSuite(t *testing.T, l log.Log, f Features) *suite {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	s := &suite{T: t, log: l, features: f, unique: strings.ToLower(rand.Text()[:10]), ctx: ctx}
	t.Cleanup(func() {
		cancel()
		if err := s.log.Close(); err != nil {
			t.Errorf("close log: %v", err)
		}
	})
	return s
}

// name makes a name that no other test case uses.
func (s *suite) name(base string) string { return base + "-" + s.unique }

// topic creates a topic with that many partitions.
func (s *suite) topic(base string, partitions int32) string {
	s.Helper()
	name := s.name(base)
	s.must(s.log.CreateTopic(s.ctx, name, log.TopicConfig{Partitions: partitions}))
	return name
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) wantError(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("error is %v, want %v", err, want)
	}
}

func (s *suite) append(tp log.TopicPartition, values ...string) int64 {
	s.Helper()
	offset, err := s.log.Append(s.ctx, tp, records(values...)...)
	s.must(err)
	return offset
}

func (s *suite) producer(id string) (log.Producer, []byte) {
	s.Helper()
	p, mark, err := s.log.Producer(s.ctx, id)
	s.must(err)
	return p, mark
}

func (s *suite) consumer(o log.ConsumerOptions) log.Consumer {
	s.Helper()
	c, err := s.log.Consumer(s.ctx, o)
	s.must(err)
	return c
}

func (s *suite) reopen() {
	s.Helper()
	s.log = s.features.Reopen(s.T, s.log)
}

// read polls until n records have come and returns their values, by partition.
func (s *suite) read(c log.Consumer, n int) map[log.TopicPartition][]string {
	s.Helper()
	got := map[log.TopicPartition][]string{}
	for have := 0; have < n; {
		f, err := c.Poll(s.ctx, n-have)
		if err != nil {
			s.Fatalf("poll with %d of %d records read: %v", have, n, err)
		}
		if len(f.Records) > n-have {
			s.Fatalf("poll returned %d records, asked for %d", len(f.Records), n-have)
		}
		for _, r := range f.Records {
			got[f.TopicPartition] = append(got[f.TopicPartition], string(r.Value))
		}
		have += len(f.Records)
	}
	return got
}

// readAll reads one partition from the start to its high watermark. Brokers write the end of a transaction after they have
// answered, so it waits until none is open.
func (s *suite) readAll(tp log.TopicPartition) []string {
	s.Helper()
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	defer func() { s.must(c.Close(s.ctx)) }()
	var got []string
	for {
		topic, err := s.log.Topic(s.ctx, tp.Topic)
		s.must(err)
		if p := topic.Partitions[tp.Partition]; p.LastStable == p.HighWatermark && c.Assignment()[tp] >= p.LastStable {
			return got
		}
		f, err := c.Poll(s.ctx, 1000)
		s.must(err)
		for _, r := range f.Records {
			got = append(got, string(r.Value))
		}
	}
}

// nothing polls until the wait is over and fails if a record comes.
func (s *suite) nothing(c log.Consumer, wait time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, wait)
	defer cancel()
	for {
		f, err := c.Poll(ctx, 1000)
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		s.must(err)
		if len(f.Records) > 0 {
			s.Fatalf("%s-%d: %d records appeared, first %q", f.Topic, f.Partition, len(f.Records), f.Records[0].Value)
		}
	}
}

func records(values ...string) []log.Record {
	out := make([]log.Record, len(values))
	for i, v := range values {
		out[i] = log.Record{Value: []byte(v)}
	}
	return out
}

// numbered returns n values that tell themselves apart.
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}

func at(topic string, partition int32) log.TopicPartition {
	return log.TopicPartition{Topic: topic, Partition: partition}
}
