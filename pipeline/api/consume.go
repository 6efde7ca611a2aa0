package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/config"
)

const (
	consumeRecords = 500
	// consumeIdle is how often a reader that is to stop at the end looks whether it is there: a member of a group
	// hears of its partitions only inside Poll.
	consumeIdle = 200 * time.Millisecond
	// joinTime is how long a member that is to end waits for partitions.
	joinTime = 15 * time.Second
)

// reading is a parsed request to consume.
type reading struct {
	topic     string
	group     string
	from      log.Start
	partition int32 // -1: all
	offset    int64 // -1: by from
	limit     int64
	follow    bool
}

func parseReading(topic string, q url.Values) (reading, error) {
	r := reading{topic: topic, group: q.Get("group"), partition: -1, offset: -1, limit: math.MaxInt64, follow: q.Get("follow") == "true"}
	var err error
	if text := q.Get("from"); text != "" {
		if r.from, err = config.ParseStart(text); err != nil {
			return r, badRequest("from %q: %v", text, err)
		}
	}
	if text := q.Get("partition"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return r, badRequest("partition %q: not a number", text)
		}
		r.partition = int32(n)
	}
	if text := q.Get("offset"); text != "" {
		if r.offset, err = strconv.ParseInt(text, 10, 64); err != nil || r.offset < 0 {
			return r, badRequest("offset %q: not a number", text)
		}
	}
	if text := q.Get("max"); text != "" {
		if r.limit, err = strconv.ParseInt(text, 10, 64); err != nil || r.limit < 0 {
			return r, badRequest("max %q: not a number", text)
		}
	}
	switch {
	case r.offset >= 0 && r.partition < 0:
		return r, badRequest("an offset needs a partition")
	case r.group != "" && r.partition >= 0:
		return r, badRequest("a member of a group gets its partitions from the group: leave out either group or partition")
	}
	return r, nil
}

// consume streams records as JSON lines. Without follow it ends where the topic ended when it began.
func (s *server) consume(w http.ResponseWriter, r *http.Request) {
	reading, err := parseReading(r.PathValue("topic"), r.URL.Query())
	if err != nil {
		problem(w, err)
		return
	}
	t, err := s.Journal.Topic(r.Context(), reading.topic)
	if err == nil && int(reading.partition) >= len(t.Partitions) {
		err = badRequest("partition %d: topic has 0 to %d", reading.partition, len(t.Partitions)-1)
	}
	if err != nil {
		problem(w, fmt.Errorf("consume topic %s: %w", reading.topic, err))
		return
	}
	if reading.group != "" && s.sinkOf(reading.group) != "" {
		problem(w, badRequest("group %s is the one of a sink: reading in it would take records away from the sink", reading.group))
		return
	}
	consumer, err := s.Journal.Consumer(r.Context(), reading.options(t))
	if err != nil {
		problem(w, fmt.Errorf("consume topic %s: %w", reading.topic, err))
		return
	}
	stream := stream{server: s, reading: reading, consumer: consumer, w: w, ends: log.Offsets{}, left: reading.limit}
	for i, p := range t.Partitions {
		stream.ends[log.TopicPartition{Topic: t.Name, Partition: int32(i)}] = p.LastStable
	}
	err = stream.run(r.Context())
	if closeErr := consumer.Close(context.WithoutCancel(r.Context())); err == nil {
		err = closeErr
	}
	if err == nil || r.Context().Err() != nil {
		return // all was sent, or nobody is there to read more
	}
	if !stream.begun {
		problem(w, fmt.Errorf("consume topic %s: %w", reading.topic, err))
		return
	}
	_ = json.NewEncoder(w).Encode(failure{err.Error()}) // the client is gone if this does not arrive
}

func (r reading) options(t log.Topic) log.ConsumerOptions {
	o := log.ConsumerOptions{Group: r.group, From: r.from}
	if r.group != "" {
		o.Topics = []string{t.Name}
		return o
	}
	for i := range t.Partitions {
		if r.partition < 0 || int(r.partition) == i {
			o.Partitions = append(o.Partitions, log.TopicPartition{Topic: t.Name, Partition: int32(i)})
		}
	}
	return o
}

// stream is one running answer.
type stream struct {
	server   *server
	reading  reading
	consumer log.Consumer
	w        http.ResponseWriter
	ends     log.Offsets // where partitions ended when it began
	left     int64       // records that may still be sent
	begun    bool        // something was sent
}

func (s *stream) run(ctx context.Context) error {
	if s.reading.offset >= 0 {
		if err := s.consumer.Seek(log.TopicPartition{Topic: s.reading.topic, Partition: s.reading.partition}, s.reading.offset); err != nil {
			return err
		}
	}
	s.w.Header().Set("Content-Type", "application/x-ndjson")
	s.w.Header().Set("Cache-Control", "no-store")
	if s.reading.follow {
		s.flush() // a follower sees that it is connected before the first record
	}
	began := time.Now()
	for s.left > 0 && (s.reading.follow || !s.atEnd()) {
		if !s.reading.follow && len(s.consumer.Assignment()) == 0 && time.Since(began) > joinTime {
			return fmt.Errorf("group %s gave this member no partition: its other members have them all", s.reading.group)
		}
		fetch, err := s.poll(ctx)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.send(ctx, fetch); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) poll(ctx context.Context) (log.Fetch, error) {
	if !s.reading.follow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, consumeIdle)
		defer cancel()
	}
	return s.consumer.Poll(ctx, int(min(s.left, consumeRecords)))
}

// atEnd reports whether every assigned partition was read to where it ended at first. A partition that is not in ends
// came later.
func (s *stream) atEnd() bool {
	assigned := s.consumer.Assignment()
	for tp, next := range assigned {
		if next < s.ends[tp] {
			return false
		}
	}
	return len(assigned) > 0
}

// send writes what was fetched and then commits it: whoever reads in a group sees a record again rather than never.
func (s *stream) send(ctx context.Context, fetch log.Fetch) error {
	encoder := json.NewEncoder(s.w)
	encoder.SetEscapeHTML(false)
	end, next := s.ends[fetch.TopicPartition], fetch.Next
	for i, rec := range fetch.Records {
		if !s.reading.follow && rec.Offset >= end {
			next = rec.Offset
			break
		}
		if s.left == 0 {
			next = rec.Offset
			break
		}
		s.begun = true
		if err := encoder.Encode(NewRecord(fetch.TopicPartition, fetch.Records[i])); err != nil {
			return err
		}
		s.left--
	}
	s.flush()
	if s.reading.group == "" {
		return nil
	}
	return s.consumer.Commit(ctx, log.Offsets{fetch.TopicPartition: next})
}

func (s *stream) flush() {
	s.begun = true
	_ = http.NewResponseController(s.w).Flush() // a writer that cannot flush sends at its end
}
