package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
)

var positionsPartition = log.TopicPartition{Topic: PositionsTopic}

// The topic of marks stays short: small segments are compacted soon.
const (
	positionsSegment = 1 << 20
	positionsAge     = 10 * time.Minute
)

// ensurePositions returns when the topic of marks is there and answers. Another process or goroutine may be creating it at
// this moment, so that it exists and yet has no leader, or is still unknown to this client.
func (l *Log) ensurePositions(ctx context.Context) error {
	_, err := l.config(ctx, PositionsTopic)
	if errors.Is(err, log.ErrUnknownTopic) {
		err = l.createPositions(ctx)
	}
	if err != nil {
		return err
	}
	return l.ready(ctx, PositionsTopic, 1)
}

func (l *Log) createPositions(ctx context.Context) error {
	err := l.CreateTopic(ctx, PositionsTopic, log.TopicConfig{Partitions: 1, Retention: log.Forever, Compact: true,
		SegmentBytes: positionsSegment, SegmentAge: positionsAge})
	if errors.Is(err, log.ErrTopicExists) {
		return nil
	}
	return err
}

// readMark returns what the last commit of a producer stored. The older producers of the id have been fenced, so each of
// their transactions is decided; but another producer may have one open, and then the last stable offset stands before
// the mark that is wanted. So it reads to the high watermark and tells committed from aborted by the markers itself.
func (l *Log) readMark(ctx context.Context, id string) ([]byte, error) {
	b, err := l.ends(ctx, []string{PositionsTopic})
	if err != nil {
		return nil, err
	}
	start, errStart := lookup(b.start, positionsPartition)
	end, errEnd := lookup(b.end, positionsPartition)
	if err := errors.Join(errStart, errEnd); err != nil || start >= end {
		return nil, err
	}
	client, err := l.client(kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			PositionsTopic: {0: kgo.NewOffset().At(start)},
		}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	s := markScan{id: id, undecided: map[int64][]byte{}}
	for s.next < end {
		wait, cancel := context.WithTimeout(ctx, holeTime)
		fetches := client.PollFetches(wait)
		idle := wait.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		fetches.EachRecord(s.see) // some may have come at the moment when the wait ended
		if idle {
			// Compaction can leave nothing to read before the end.
			next, err := l.probe(ctx, positionsPartition, max(start, s.next), 0)
			if err != nil {
				return nil, err
			}
			if next >= end {
				break
			}
			continue
		}
		if err := fetches.Err(); err != nil {
			return nil, translate(err)
		}
	}
	if _, open := s.undecided[s.pid]; open && s.mine {
		return nil, fmt.Errorf("the last transaction of producer %q is not decided yet", id)
	}
	return s.mark, nil
}

// markScan follows the records of the topic of marks.
type markScan struct {
	id        string
	next      int64
	mark      []byte
	pid       int64
	mine      bool             // pid is set
	undecided map[int64][]byte // by the brokers' producer id: a mark whose transaction has no marker yet
}

// see takes the next record. A control record's key is a version and a type, two bytes each: 0 aborts, 1 commits.
func (s *markScan) see(r *kgo.Record) {
	s.next = r.Offset + 1
	switch {
	case r.Attrs.IsControl():
		mark, open := s.undecided[r.ProducerID]
		if open && len(r.Key) >= 4 && binary.BigEndian.Uint16(r.Key[2:]) == 1 {
			s.mark = mark
		}
		delete(s.undecided, r.ProducerID)
	case string(r.Key) != s.id:
	case r.Attrs.IsTransactional():
		s.pid, s.mine = r.ProducerID, true
		s.undecided[r.ProducerID] = r.Value
	default:
		s.mark = r.Value // log mirror writes marks one by one
	}
}
