package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// gapLine holds 200 rows and more in one partition, of which the sink has read 50 and retention has removed the oldest.
func gapLine(t *testing.T) (s *line, start int64) {
	t.Helper()
	l, err := disk.Open(t.TempDir(), disk.Options{MaintenanceInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s = &line{t: t, log: l, schemas: codec.NewSchemas(l), feed: memory.NewFeed(), store: memory.NewStore()}
	t.Cleanup(func() {
		if err := errors.Join(s.schemas.Close(context.Background()), l.Close()); err != nil {
			t.Error(err)
		}
	})
	s.topics = log.TopicConfig{Partitions: 1, SegmentBytes: 10 << 10, RetentionBytes: 20 << 10}
	for id := range 50 {
		s.feed.Append(insert(id, "v"))
	}
	s.ingest()
	s.mustDeliver(s.options())
	for id := 50; ; id++ {
		s.feed.Append(insert(id, strings.Repeat("random 7f3a9c ", 20)+fmt.Sprint(id)))
		if id%50 != 0 {
			continue
		}
		s.ingest()
		topic, err := l.Topic(t.Context(), itemTopic)
		if err != nil {
			t.Fatal(err)
		}
		if start = topic.Partitions[0].LogStart; start > 150 {
			return s, start
		}
	}
}

func TestSinkOvertakenByRetentionStopsAndSaysWhatIsGone(t *testing.T) {
	t.Parallel()
	s, _ := gapLine(t)
	read := s.mustStatusNext()
	o := s.options()
	o.Until = nil
	d, err := deliver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Run(t.Context())
	topic, topicErr := s.log.Topic(t.Context(), itemTopic)
	if topicErr != nil {
		t.Fatal(topicErr)
	}
	lost := d.Status(t.Context()).Lost
	want := fmt.Sprintf("offsets %d to %d are gone", read, read+lost-1)
	if !errors.Is(err, connectors.ErrPositionLost) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "trunkline groups reset target --to earliest --topic "+itemTopic) {
		t.Errorf("error %v, want %s", err, want)
	}
	if lost <= 0 || read+lost > topic.Partitions[0].LogStart {
		t.Errorf("lost %d, log start %d", lost, topic.Partitions[0].LogStart)
	}
	if n := s.store.Count("public.item"); n != 50 {
		t.Errorf("%d rows: it went on behind the gap", n)
	}
}

// mustStatusNext returns the offset that the group committed.
func (s *line) mustStatusNext() int64 {
	s.t.Helper()
	groups, err := s.log.Groups(s.t.Context())
	if err != nil || len(groups) != 1 {
		s.t.Fatal(groups, err)
	}
	return groups[0].Offsets[log.TopicPartition{Topic: itemTopic}]
}

func TestSinkToldToSkipGapsGoesOnAndReportsThem(t *testing.T) {
	t.Parallel()
	s, _ := gapLine(t)
	o := s.options()
	o.SkipGaps = true
	var reasons []string
	o.OnReport = func(r connectors.Report) { reasons = append(reasons, r.Reason) }
	d := s.mustDeliver(o)
	if len(reasons) == 0 || !strings.Contains(reasons[0], "are gone") || d.Status(t.Context()).Lost == 0 {
		t.Errorf("reports %q, %d lost", reasons, d.Status(t.Context()).Lost)
	}
	if n := s.store.Count("public.item"); n <= 50 {
		t.Errorf("%d rows", n)
	}
}
