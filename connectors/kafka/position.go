package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors"
)

// positions is a compacted topic in the target with one partition. A record's key is the group, a slash and the stream; its
// value is the position.
const positions = "_trunkline_offsets"

// holeTime is how long nothing may come before the end is asked for again: compaction can leave nothing to read there.
const holeTime = 20 * time.Second

// read returns the last committed position of a group and stream. It reads what is not committed too and looks at the
// markers itself, so that it need not wait for transactions that others have open. Those of the stream are decided: its
// producer was opened before.
func (s *sink) read(ctx context.Context, id string) (connectors.Position, error) {
	starts, err := s.admin.ListStartOffsets(ctx, positions)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, err
	}
	ends, err := s.admin.ListEndOffsets(ctx, positions)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	start, _ := starts.Lookup(positions, 0)
	end, _ := ends.Lookup(positions, 0)
	if start.Offset >= end.Offset {
		return nil, nil
	}
	client, err := s.config.client(kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{positions: {0: kgo.NewOffset().At(start.Offset)}}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var position connectors.Position
	undecided := map[int64]connectors.Position{} // by the brokers' id of a producer
	for next := start.Offset; next < end.Offset; {
		wait, cancel := context.WithTimeout(ctx, holeTime)
		fetches := client.PollFetches(wait)
		idle := wait.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			// A control record's key is a version and a type, two bytes each: 0 aborts, 1 commits.
			if r.Attrs.IsControl() {
				if mark, ok := undecided[r.ProducerID]; ok && len(r.Key) >= 4 && r.Key[3] == 1 {
					position = mark
				}
				delete(undecided, r.ProducerID)
			} else if string(r.Key) == id {
				undecided[r.ProducerID] = append(connectors.Position{}, r.Value...)
			}
		})
		if idle && fetches.NumRecords() == 0 {
			stable, err := s.admin.ListCommittedOffsets(ctx, positions)
			if err != nil {
				return nil, err
			}
			if at, ok := stable.Lookup(positions, 0); ok && at.Offset >= end.Offset {
				return position, nil
			}
			continue
		}
		if err := fetches.Err(); err != nil && !idle {
			return nil, fmt.Errorf("read topic %s: %w", positions, err)
		}
	}
	return position, nil
}
