package deliver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

const (
	// tick is how often a bounded delivery looks whether its end is known and reached.
	tick = 50 * time.Millisecond
	// saveEvery is how often the group's offsets are committed where the sink keeps the positions that count. Each
	// commit costs a sync of the disk.
	saveEvery = time.Second
)

// run is the state of one attempt. It belongs to the goroutine of Run.
type run struct {
	*Deliver
	sink     connectors.Sink
	keeper   connectors.Transactional // nil: the sink keeps no positions
	migrator connectors.Migrator      // nil: the sink does not follow schemas
	consumer log.Consumer
	decoder  *codec.Decoder
	jobs     [2]job
	flying   *job // the one that the sink writes; nil: none. While there is one, nothing else may call the sink
	bell     bell

	partitions map[log.TopicPartition]*partition
	tables     map[tableKey]*followed
	migrated   map[*connectors.Table]bool // the sink knows it; used by whoever may call the sink
	barriers   map[barrierKey]*barrier
	letters    bool // the dead-letter topic exists

	whole   bool            // rows are completed
	rows    *rowStore       // nil: not needed so far
	lacking map[string]bool // tables of which it was said that rows could not be completed

	unsaved log.Offsets // dealt with, and not committed to the group yet
	saved   time.Time   // when the group's offsets were last committed
	polled  time.Time   // when the last poll began, and when it ended; zero without a tracer
	fetched time.Time
	moved   []string // tables whose target was asked for or changed since the last job, for its trace
	began   bool     // among unsaved are places where the sink begins, which are committed before it writes
}

// partition is what the attempt knows of one that is assigned to it.
type partition struct {
	log.TopicPartition
	stream    string
	next      int64             // everything below is dealt with
	gathering gathering         // the batch that waits for more
	due       int64             // records below have waited: they are dealt with as they come
	rows      string            // the name of the stream in the file of rows
	cover     *cover            // rows that updates may need; nil: none did so far
	past      *past             // that it is read again for; nil: it is not
	fits      *connectors.Table // the version of the last change, where it is the one that the sink has
	meter     *partitionMeter
}

func newRun(d *Deliver, sink connectors.Sink) *run {
	r := &run{
		Deliver:    d,
		sink:       sink,
		decoder:    codec.NewDecoder(d.o.Schemas),
		partitions: map[log.TopicPartition]*partition{},
		tables:     map[tableKey]*followed{},
		migrated:   map[*connectors.Table]bool{},
		barriers:   map[barrierKey]*barrier{},
		unsaved:    log.Offsets{},
		lacking:    map[string]bool{},
	}
	r.whole = r.completes()
	r.keeper, _ = sink.(connectors.Transactional)
	r.migrator, _ = sink.(connectors.Migrator)
	return r
}

// Stream names the order of a partition for a sink.
func Stream(tp log.TopicPartition) string {
	return tp.Topic + "/" + strconv.Itoa(int(tp.Partition))
}

func position(next int64) connectors.Position { return strconv.AppendInt(nil, next, 10) }

// assigned begins at the position that the sink holds, which is the truth, and at the group's where it holds none.
func (r *run) assigned(ctx context.Context, start log.Offsets) error {
	if err := r.join(ctx); err != nil {
		return err
	}
	known, err := r.known(ctx)
	if err != nil {
		return err
	}
	for tp, next := range start {
		p := &partition{TopicPartition: tp, stream: Stream(tp)}
		if r.keeper != nil {
			if next, err = r.begin(ctx, p, next, known); err != nil {
				return err
			}
		}
		p.next = next
		p.meter = r.meter.assign(tp, next)
		r.partitions[tp] = p
	}
	return nil
}

// known returns what the group has committed, for a sink that keeps positions of its own.
func (r *run) known(ctx context.Context) (log.Offsets, error) {
	if r.keeper == nil {
		return nil, nil
	}
	groups, err := r.o.Journal.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("read offsets of group %q: %w", r.o.Group, err)
	}
	for _, g := range groups {
		if g.Name == r.o.Group {
			return g.Offsets, nil
		}
	}
	return nil, nil
}

// begin starts a partition at the position that the sink holds, else at next. Where a sink begins, the group's offset is
// committed before the first write. So a position without one is of another log, or of a topic that was deleted and made
// again, and going on from it would pass over records that nobody has delivered.
func (r *run) begin(ctx context.Context, p *partition, next int64, known log.Offsets) (int64, error) {
	held, err := r.keeper.Committed(ctx, p.stream)
	if err != nil {
		return 0, fmt.Errorf("read position of %s in sink %q: %w", p.stream, r.o.Sink, err)
	}
	_, delivered := known[p.TopicPartition]
	if held == nil {
		if !delivered {
			r.unsaved[p.TopicPartition], r.began = next, true
		}
		return next, nil
	}
	offset, err := strconv.ParseInt(string(held), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read position of %s in sink %q: not an offset: %w", p.stream, r.o.Sink, connectors.ErrFatal)
	}
	if !delivered {
		return 0, fmt.Errorf("sink %q holds position %d of %s, and this log has never delivered that to group %q: the log was begun anew, or the topic was made again; "+
			"trunkline groups reset %s --to earliest --topic %s delivers it from the start: %w", r.o.Sink, offset, p.stream, r.o.Group, r.o.Group, p.Topic, connectors.ErrPositionLost)
	}
	if offset != next {
		if err := r.consumer.Seek(p.TopicPartition, offset); err != nil {
			return 0, fmt.Errorf("seek %s: %w", p.stream, err)
		}
	}
	return offset, nil
}

// revoked forgets partitions, once what is in flight has ended.
func (r *run) revoked(ctx context.Context, lost []log.TopicPartition) error {
	if err := r.join(ctx); err != nil {
		return err
	}
	if err := r.save(ctx); err != nil && !errors.Is(err, log.ErrNotAssigned) {
		return err // a topic that was deleted has no offsets to commit
	}
	for _, tp := range lost {
		delete(r.partitions, tp)
		delete(r.unsaved, tp)
		r.meter.unassign(tp)
		for key := range r.tables {
			if key.topic == tp.Topic { // another process may take it further
				delete(r.tables, key)
			}
		}
		for id, b := range r.barriers {
			if b.topic == tp.Topic {
				r.release(b)
				delete(r.barriers, id)
			}
		}
	}
	return nil
}

// loop polls and delivers. ctx ends the polling, hard what is in hand.
func (r *run) loop(ctx, hard context.Context) error {
	err := r.pump(ctx, hard)
	ending := r.join(hard)
	if ending == nil {
		ending = r.save(hard)
	}
	if ending != nil && (err == nil || ctx.Err() != nil) {
		return ending
	}
	return err
}

func (r *run) pump(ctx, hard context.Context) error {
	for {
		if err := r.ripenWaiting(); err != nil {
			return err
		}
		if len(r.unsaved) > 0 && time.Since(r.saved) >= saveEvery {
			if err := r.save(hard); err != nil {
				return err
			}
		}
		if r.flying != nil && r.flying.ended() {
			if err := r.join(hard); err != nil {
				return err
			}
		}
		if done, err := r.finished(ctx); done || err != nil {
			return err
		}
		poll, cancel := r.pollContext(ctx)
		r.polled = r.o.Tracer.Now()
		fetch, err := r.consumer.Poll(poll, r.o.Batch.Rows)
		r.fetched = r.o.Tracer.Now()
		expired := poll.Err() != nil
		cancel()
		switch {
		case err == nil:
			if r.began {
				err, r.began = r.save(hard), false
			}
			if err == nil {
				err = r.received(hard, fetch)
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case expired && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
			err = r.join(hard) // a time came, or what was in flight ended
		default:
			err = r.pollFailed(hard, err)
		}
		if err != nil {
			return err
		}
		if err := r.resolveBarriers(hard); err != nil {
			return err
		}
	}
}

// pollContext ends a poll when a waiting batch or a commit is due, or when a bounded delivery has to look at its end.
func (r *run) pollContext(ctx context.Context) (context.Context, context.CancelFunc) {
	var due time.Time
	sooner := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	if r.o.Until != nil {
		sooner(time.Now().Add(tick))
	}
	if len(r.unsaved) > 0 {
		sooner(r.saved.Add(saveEvery))
	}
	for _, p := range r.partitions {
		if p.gathering.open() {
			sooner(p.gathering.until)
		}
	}
	for _, b := range r.barriers {
		if b.step != nil && b.step.err != nil {
			sooner(b.step.at)
		}
	}
	if due.IsZero() && r.flying == nil {
		return ctx, func() {}
	}
	var poll context.Context
	var end context.CancelFunc
	if due.IsZero() {
		poll, end = context.WithCancel(ctx)
	} else {
		poll, end = context.WithDeadline(ctx, due)
	}
	r.bell.set(end)
	if r.flying != nil && r.flying.ended() {
		end() // it may have rung before
	}
	return poll, func() {
		r.bell.set(nil)
		end()
	}
}

// pollFailed decides about an error of Poll. A gap is never jumped over in silence. What was gathered before it is dealt
// with first, and the error met again.
func (r *run) pollFailed(ctx context.Context, err error) error {
	var gone *log.OutOfRangeError
	var damaged *log.CorruptError
	var at log.TopicPartition
	if errors.As(err, &gone) {
		at = gone.TopicPartition
	} else if errors.As(err, &damaged) {
		at = damaged.TopicPartition
	}
	if p := r.partitions[at]; p != nil && p.gathering.open() {
		return r.ripen(p)
	}
	switch {
	case gone != nil:
		return r.gap(ctx, gone)
	case damaged != nil:
		return fmt.Errorf("read log: %w: %w: the records behind it can be read after trunkline groups reset %s --to %d --topic %s",
			err, connectors.ErrFatal, r.o.Group, damaged.Last+1, damaged.Topic)
	}
	return fmt.Errorf("read log: %w", err)
}

func (r *run) gap(hard context.Context, gone *log.OutOfRangeError) error {
	if err := r.join(hard); err != nil {
		return err
	}
	lost := gone.LogStart - gone.Offset
	if lost > 0 {
		r.meter.lost.Add(lost)
	}
	if lost <= 0 || !r.o.SkipGaps {
		return fmt.Errorf("%w: %w: to go on from the oldest record: trunkline groups reset %s --to earliest --topic %s",
			gone, connectors.ErrPositionLost, r.o.Group, gone.Topic)
	}
	r.o.Logger.Warn("records were lost to retention", "sink", r.o.Sink, "topic", gone.Topic, "partition", gone.Partition,
		"offset", gone.Offset, "next", gone.LogStart)
	r.o.OnReport(connectors.Report{Reason: gone.Error()})
	if err := r.consumer.Seek(gone.TopicPartition, gone.LogStart); err != nil {
		return fmt.Errorf("seek %s: %w", Stream(gone.TopicPartition), err)
	}
	if p := r.partitions[gone.TopicPartition]; p != nil {
		p.next = gone.LogStart
	}
	return nil
}

// received deals with what a poll returned.
func (r *run) received(hard context.Context, f log.Fetch) error {
	p := r.partitions[f.TopicPartition]
	if p == nil {
		return fmt.Errorf("read log: %s is not assigned", Stream(f.TopicPartition))
	}
	p.meter.seen(f)
	if r.paused(p.Topic) {
		return r.park(p, f)
	}
	if waits, err := r.gather(p, f); waits || err != nil {
		return err
	}
	return r.deal(hard, p, f)
}

// paused reports whether somebody paused the topic.
func (r *run) paused(topic string) bool { return r.o.Paused != nil && r.o.Paused(topic) }

// park puts the fetch back and keeps its partition out of polls for as long as the attempt goes on.
func (r *run) park(p *partition, f log.Fetch) error {
	if err := r.consumer.Seek(p.TopicPartition, p.next); err != nil {
		return fmt.Errorf("seek %s: %w", p.stream, err)
	}
	p.gathering = gathering{}
	r.consumer.Pause(p.TopicPartition)
	return nil
}

// advance notes that everything below next is dealt with, and commits it at once unless the sink keeps positions itself.
func (r *run) advance(hard context.Context, p *partition, next int64) error {
	r.unsaved[p.TopicPartition] = next
	if r.keeper == nil {
		if err := r.save(hard); err != nil {
			return err
		}
	}
	p.next = next
	p.meter.advance(next)
	return nil
}

// save commits the group's offsets.
func (r *run) save(hard context.Context) error {
	if len(r.unsaved) == 0 {
		return nil
	}
	if err := r.consumer.Commit(hard, r.unsaved); err != nil {
		return fmt.Errorf("commit offsets of group %q: %w", r.o.Group, err)
	}
	clear(r.unsaved)
	r.saved = time.Now()
	return nil
}

// finished reports that a bounded delivery has reached its end.
func (r *run) finished(ctx context.Context) (bool, error) {
	if r.o.Until == nil {
		return false, nil
	}
	ends := r.o.Until()
	if ends == nil {
		return false, nil
	}
	var others log.Offsets
	var stopped error
	for tp, end := range ends {
		if !r.subscribed(tp.Topic) || end == 0 || r.paused(tp.Topic) {
			continue
		}
		if p := r.partitions[tp]; p != nil {
			if p.next < end {
				if err := r.stopped(p); err == nil {
					return false, nil
				} else {
					stopped = fmt.Errorf("%w: %w", err, connectors.ErrFatal)
				}
			}
			continue
		}
		if others == nil {
			var err error
			if others, err = r.committed(ctx); err != nil {
				return false, err
			}
		}
		if others[tp] < end {
			return false, nil
		}
	}
	return true, stopped
}

func (r *run) subscribed(topic string) bool {
	for _, pattern := range r.o.Topics {
		if pattern == topic || (!log.IsInternal(topic) && connectors.MatchName(pattern, topic)) {
			return true
		}
	}
	return false
}

// committed returns the offsets of the whole group, other members included.
func (r *run) committed(ctx context.Context) (log.Offsets, error) {
	groups, err := r.o.Journal.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	for _, g := range groups {
		if g.Name == r.o.Group {
			return g.Offsets, nil
		}
	}
	return log.Offsets{}, nil
}
