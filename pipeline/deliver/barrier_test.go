package deliver_test

import (
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// truncates counts how often the target was truncated.
func (s *line) truncates() (n int) {
	for _, a := range s.store.Log() {
		if a.Op == connectors.Truncate {
			n++
		}
	}
	return n
}

// eachKind runs f with a sink that keeps positions and with one that does not.
func eachKind(t *testing.T, f func(t *testing.T, s *line, o deliver.Options)) {
	t.Parallel()
	for name, plain := range map[string]bool{"transactional": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLine(t)
			o := s.options()
			if plain {
				o.Open = s.store.OpenPlain
			}
			f(t, s, o)
		})
	}
}

func TestTruncateSeparatesTheRowsOfAllPartitions(t *testing.T) {
	eachKind(t, func(t *testing.T, s *line, o deliver.Options) {
		for id := range 100 {
			s.feed.Append(insert(id, "old"))
		}
		s.feed.Append(truncate())
		for id := 50; id < 150; id++ {
			s.feed.Append(insert(id, "v"))
		}
		s.ingest()
		o.Batch.Rows = 7 // the partitions take turns, and reach the truncate at different times
		s.mustDeliver(o)
		s.want(numbered(50, 150))
		if n := s.truncates(); n != 1 {
			t.Errorf("%d truncates, want 1", n)
		}
		s.mustDeliver(o)
		if n := s.truncates(); n != 1 {
			t.Errorf("%d truncates after a restart, want 1", n)
		}
	})
}

func TestTruncatesInARowAreAppliedInOrder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *line, o deliver.Options) {
		s.feed.Append(insert(1, "a"), truncate(), truncate(), insert(2, "b"), truncate(), insert(3, "c"))
		s.feed.Append(truncate(), insert(4, "v"), insert(5, "v"))
		s.ingest()
		s.mustDeliver(o)
		s.want(numbered(4, 6))
		if n := s.truncates(); n != 4 {
			t.Errorf("%d truncates, want 4", n)
		}
	})
}

func TestTruncateOfATopicWithOnePartitionNeedsNoBarrier(t *testing.T) {
	eachKind(t, func(t *testing.T, s *line, o deliver.Options) {
		s.topics.Partitions = 1
		s.feed.Append(insert(1, "a"), truncate(), insert(2, "v"))
		s.ingest()
		s.mustDeliver(o)
		s.want(numbered(2, 3))
	})
}

func TestTruncateThatOthersHavePassedIsLeftOut(t *testing.T) {
	eachKind(t, func(t *testing.T, s *line, o deliver.Options) {
		s.topics.Partitions = 2
		s.feed.Append(truncate())
		for id := range 20 {
			s.feed.Append(insert(id, "v"))
		}
		s.ingest()
		// The group begins behind the truncate in partition 1, as after a reset of that partition.
		if err := s.log.SetOffsets(t.Context(), "target", log.Offsets{{Topic: itemTopic, Partition: 1}: 1}); err != nil {
			t.Fatal(err)
		}
		var reasons []string
		o.OnReport = func(r connectors.Report) { reasons = append(reasons, r.Reason) }
		s.mustDeliver(o)
		s.want(numbered(0, 20))
		if len(reasons) != 1 || !strings.Contains(reasons[0], "truncate was left out: 1 of 2") {
			t.Errorf("reports %q", reasons)
		}
	})
}

func TestResetAppliesTruncatesAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, s *line, o deliver.Options) {
		s.topics.Partitions = 2
		for id := range 20 {
			s.feed.Append(insert(id, "old"))
		}
		s.feed.Append(truncate(), insert(100, "v"))
		s.ingest()
		s.mustDeliver(o)
		if err := deliver.Reset(t.Context(), o, log.Offsets{{Topic: itemTopic}: 0, {Topic: itemTopic, Partition: 1}: 0}); err != nil {
			t.Fatal(err)
		}
		s.mustDeliver(o)
		s.want(numbered(100, 101))
		if n := s.truncates(); n != 2 {
			t.Errorf("%d truncates, want 2", n)
		}
	})
}
