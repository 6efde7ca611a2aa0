package deliver

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/drain"
)

// Reset makes these the next offsets of the sink's group. A sink that keeps its positions itself is told too, because
// its positions win. Nothing may run on the group.
func Reset(ctx context.Context, o Options, offsets log.Offsets) (err error) {
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	sink, err := o.Open(ctx, o.env())
	if err != nil {
		return fmt.Errorf("open sink %q: %w", o.Sink, err)
	}
	defer func() { err = errors.Join(err, drain.Close("sink", sink.Close, o.StopTimeout)) }()
	if keeper, ok := sink.(connectors.Transactional); ok {
		if err := move(ctx, keeper, offsets); err != nil {
			return fmt.Errorf("reset sink %q: %w", o.Sink, err)
		}
	}
	if err := o.Journal.SetOffsets(ctx, o.Group, offsets); err != nil {
		return fmt.Errorf("set offsets of group %q: %w", o.Group, err)
	}
	return nil
}

// move sets the positions that a sink keeps. Truncates that were applied have to be applied again when they are read
// again, so their stream is forgotten for a topic that goes back.
func move(ctx context.Context, keeper connectors.Transactional, offsets log.Offsets) error {
	forgotten := map[string]bool{}
	for tp, next := range offsets {
		held, err := place(ctx, keeper, Stream(tp), next)
		if err != nil {
			return err
		}
		before, err := strconv.ParseInt(string(held), 10, 64)
		if back := err == nil && before > next; !back || forgotten[tp.Topic] {
			continue
		}
		forgotten[tp.Topic] = true
		stream := BarrierStream(tp.Topic)
		if held, err = keeper.Committed(ctx, stream); err != nil {
			return fmt.Errorf("read position of %s: %w", stream, err)
		}
		if held == nil {
			continue // it never had one
		}
		if _, err := place(ctx, keeper, stream, 0); err != nil {
			return err
		}
	}
	return nil
}

// place sets the position of one stream and returns the one before.
func place(ctx context.Context, keeper connectors.Transactional, stream string, next int64) (connectors.Position, error) {
	held, err := keeper.Committed(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("read position of %s: %w", stream, err)
	}
	if err := keeper.Write(ctx, connectors.Batch{Stream: stream, Position: position(next)}); err != nil {
		return nil, fmt.Errorf("set position of %s: %w", stream, err)
	}
	return held, nil
}
