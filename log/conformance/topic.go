package conformance

import (
	"slices"
	"time"

	"github.com/trunkline/trunkline/log"
)

var topicCases = []testCase{
	{name: "a topic exists once", run: topicOnce},
	{name: "a topic's config survives", reopens: true, run: topicConfigSurvives},
	{name: "a bad name is refused", run: topicBadName},
	{name: "a deleted topic takes its records and offsets along", run: topicDeleted},
}

func topicOnce(s *suite) {
	name := s.topic("orders", 3)
	s.wantError(s.log.CreateTopic(s.ctx, name, log.TopicConfig{}), log.ErrTopicExists)
	topic, err := s.log.Topic(s.ctx, name)
	s.must(err)
	if len(topic.Partitions) != 3 || topic.Config.Partitions != 3 {
		s.Fatalf("topic has %d partitions, config says %d, want 3", len(topic.Partitions), topic.Config.Partitions)
	}
	if topic.Config.Retention == 0 || topic.Config.SegmentBytes == 0 || topic.Config.Compression == nil {
		s.Fatalf("config is not complete: %+v", topic.Config)
	}
	all, err := s.log.Topics(s.ctx)
	s.must(err)
	if !slices.IsSortedFunc(all, func(a, b log.Topic) int { return compare(a.Name, b.Name) }) {
		s.Error("topics are not sorted by name")
	}
	if !slices.ContainsFunc(all, func(t log.Topic) bool { return t.Name == name }) {
		s.Errorf("topics do not list %s", name)
	}
	_, err = s.log.Topic(s.ctx, s.name("absent"))
	s.wantError(err, log.ErrUnknownTopic)
	_, err = s.log.Append(s.ctx, at(name, 3), log.Record{Value: []byte("x")})
	s.wantError(err, log.ErrUnknownTopic)
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func topicConfigSurvives(s *suite) {
	name, none := s.name("orders"), log.CompressionNone
	want := log.TopicConfig{Partitions: 2, Retention: time.Hour, RetentionBytes: 1 << 30, Compression: &none, Compact: true,
		SegmentBytes: 1 << 20, SegmentAge: time.Minute, MaxRecordBytes: 1 << 20}
	s.must(s.log.CreateTopic(s.ctx, name, want))
	before, err := s.log.Topic(s.ctx, name)
	s.must(err)
	s.reopen()
	after, err := s.log.Topic(s.ctx, name)
	s.must(err)
	if after.ID != before.ID {
		s.Errorf("topic id changed")
	}
	got := after.Config
	if got.Compression == nil || *got.Compression != none {
		s.Fatalf("compression is %v, want none", got.Compression)
	}
	got.Compression = want.Compression
	if got != want {
		s.Errorf("config is %+v, want %+v", got, want)
	}
}

func topicBadName(s *suite) {
	for _, name := range []string{"", ".", "..", "a/b", "a b", "ä"} {
		if err := s.log.CreateTopic(s.ctx, name, log.TopicConfig{}); err == nil {
			s.Errorf("topic %q was created", name)
		}
	}
}

func topicDeleted(s *suite) {
	name, group := s.topic("orders", 1), s.name("group")
	s.append(at(name, 0), "old")
	s.must(s.log.SetOffsets(s.ctx, group, log.Offsets{at(name, 0): 1}))
	s.must(s.log.DeleteTopic(s.ctx, name))
	_, err := s.log.Topic(s.ctx, name)
	s.wantError(err, log.ErrUnknownTopic)
	s.wantError(s.log.DeleteTopic(s.ctx, name), log.ErrUnknownTopic)
	s.topic("orders", 1)
	if offset := s.append(at(name, 0), "new"); offset != 0 {
		s.Errorf("first offset of the topic made anew is %d, want 0", offset)
	}
	c := s.consumer(log.ConsumerOptions{Group: group, Topics: []string{name}})
	got := s.read(c, 1)[at(name, 0)]
	s.must(c.Close(s.ctx))
	if !slices.Equal(got, []string{"new"}) {
		s.Errorf("read %q, want the record of the new topic", got)
	}
}

var appendCases = []testCase{
	{name: "records come back as they were", run: appendRoundTrip},
	{name: "offsets grow by one", run: appendOffsets},
	{name: "a record above the limit is refused", run: appendTooLarge},
	{name: "a time finds its offset", run: appendOffsetAt},
	{name: "records survive a reopen", reopens: true, run: appendSurvives},
}

func appendRoundTrip(s *suite) {
	for _, c := range []log.Compression{log.CompressionNone, log.CompressionGzip, log.CompressionSnappy, log.CompressionLZ4, log.CompressionZstd} {
		name := s.name("codec-" + c.String())
		s.must(s.log.CreateTopic(s.ctx, name, log.TopicConfig{Partitions: 1, Compression: &c}))
		want := []log.Record{
			{Key: []byte("k"), Value: []byte("v"), Timestamp: 1700000000123, Headers: []log.Header{{Key: "h", Value: []byte("1")}, {Key: "h", Value: nil}}},
			{Key: nil, Value: []byte{}, Timestamp: 1700000000001},
			{Key: []byte{}, Value: nil, Timestamp: 1700000001000},
		}
		_, err := s.log.Append(s.ctx, at(name, 0), want...)
		s.must(err)
		consumer := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{at(name, 0)}})
		f, err := consumer.Poll(s.ctx, 100)
		s.must(err)
		if len(f.Records) != len(want) || f.Next != 3 {
			s.Fatalf("%v: %d records and next %d, want %d and 3", c, len(f.Records), f.Next, len(want))
		}
		for i, r := range f.Records {
			w := want[i]
			if r.Offset != int64(i) || r.Timestamp != w.Timestamp || !sameBytes(r.Key, w.Key) || !sameBytes(r.Value, w.Value) {
				s.Errorf("%v: record %d is %+v, want %+v", c, i, r, w)
			}
			if !slices.EqualFunc(r.Headers, w.Headers, func(a, b log.Header) bool { return a.Key == b.Key && sameBytes(a.Value, b.Value) }) {
				s.Errorf("%v: headers of record %d are %v, want %v", c, i, r.Headers, w.Headers)
			}
		}
		s.must(consumer.Close(s.ctx))
	}
}

// sameBytes tells nil from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

func appendOffsets(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	for i := range 20 {
		if offset := s.append(tp, "a", "b", "c"); offset != int64(3*i) {
			s.Fatalf("append %d starts at %d, want %d", i, offset, 3*i)
		}
	}
	topic, err := s.log.Topic(s.ctx, tp.Topic)
	s.must(err)
	if p := topic.Partitions[0]; p.LogStart != 0 || p.HighWatermark != 60 || p.LastStable != 60 || p.Bytes == 0 || p.Segments == 0 {
		s.Errorf("partition is %+v, want 60 records", p)
	}
}

func appendTooLarge(s *suite) {
	name := s.name("orders")
	s.must(s.log.CreateTopic(s.ctx, name, log.TopicConfig{Partitions: 1, MaxRecordBytes: 1000}))
	big := log.Record{Value: make([]byte, 2000)}
	_, err := s.log.Append(s.ctx, at(name, 0), big)
	s.wantError(err, log.ErrRecordTooLarge)
	p, _ := s.producer(s.name("p"))
	s.wantError(p.Append(s.ctx, at(name, 0), big), log.ErrRecordTooLarge)
	if offset := s.append(at(name, 0), "small"); offset != 0 {
		s.Errorf("the refused record took an offset: next is %d", offset)
	}
}

func appendOffsetAt(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	for i := range 5 {
		_, err := s.log.Append(s.ctx, tp, log.Record{Value: []byte("v"), Timestamp: int64(1000 * (i + 1))})
		s.must(err)
	}
	for ms, want := range map[int64]int64{0: 0, 1000: 0, 1001: 1, 4000: 3, 5000: 4, 5001: 5} {
		offset, err := s.log.OffsetAt(s.ctx, tp, time.UnixMilli(ms))
		s.must(err)
		if offset != want {
			s.Errorf("offset at %d ms is %d, want %d", ms, offset, want)
		}
	}
}

func appendSurvives(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	want := numbered("v", 100)
	for i := range 10 {
		s.append(tp, want[10*i:10*i+10]...)
	}
	s.reopen()
	if got := s.readAll(tp); !slices.Equal(got, want) {
		s.Errorf("read %d records %q, want %d", len(got), got, len(want))
	}
	if offset := s.append(tp, "next"); offset != 100 {
		s.Errorf("next offset is %d, want 100", offset)
	}
}
