package deliver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/drain"
)

// maxReplay bounds how many letters one call of Replay holds in memory; the next call goes on behind them.
const maxReplay = 5000

// Why a letter is left out of a replay.
const (
	leftSuperseded = "a newer record of the same key, or a truncate, came after it"
	leftUnknown    = "its topic no longer has all records behind it, so whether a newer one came is not known"
	leftMoved      = "its row got another key with it; trunkline verify --repair or a resync of the table writes that row"
	leftTruncate   = "a truncate is not repeated"
	leftNewer      = "it is of a newer version of its table than the sink has come to"
)

// Selection says which letters a person means.
type Selection struct {
	IDs        []int64 // empty: all
	Topic      string  // only those of this topic; empty: of any
	After      int64   // only those with a greater id; -1: all
	Superseded bool    // replay also those that a newer record has superseded, or may have
}

func (s Selection) has(l *Letter) bool {
	return l.Done == "" && l.ID > s.After && (s.Topic == "" || s.Topic == l.Topic) && (len(s.IDs) == 0 || slices.Contains(s.IDs, l.ID))
}

// Unwritten is a letter that a replay did not write, and why.
type Unwritten struct {
	ID     int64  `json:"id"`
	Reason string `json:"reason"`
}

// Replayed says what a replay did.
type Replayed struct {
	Written int         `json:"written"` // letters whose rows are in the sink now
	Earlier int         `json:"earlier"` // an interrupted replay had written them
	Left    []Unwritten `json:"left"`    // they were not tried
	Refused []Unwritten `json:"refused"` // the sink refused them again
	Next    int64       `json:"next"`    // go on with After: Next; -1: nothing is left to do
}

// ReplayStream is the stream under which letters of a topic are written again. It has an order of its own: offsets are
// those of the marks in the dead-letter topic that announce the writing, so they grow whatever letters a person chooses.
func ReplayStream(topic string) string { return topic + "/-3" }

// Discard marks letters as done and returns how many.
func Discard(ctx context.Context, journal log.Log, sink string, s Selection) (int, error) {
	all, err := readLetters(ctx, journal, sink)
	if err != nil {
		return 0, err
	}
	var ids []int64
	for _, l := range all {
		if s.has(l) {
			ids = append(ids, l.ID)
		}
	}
	for part := range slices.Chunk(ids, maxReplay) {
		if _, err := markLetters(ctx, journal, sink, letterDiscarded, "", part...); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// replay is one call of Replay.
type replay struct {
	*run
	out    Replayed
	chosen []*Letter
	copies map[int64]*log.Record // of the chosen letters, by id
}

// Replay writes letters into the sink again. Nothing may run on the sink's group. Each is announced in the dead-letter
// topic before and marked after; a sink that keeps positions stores the announcement's offset with the rows, so that a
// crash between the two is found by the next call, and nothing is written twice.
func Replay(ctx context.Context, o Options, s Selection) (out Replayed, err error) {
	d, err := New(o)
	if err != nil {
		return out, err
	}
	all, err := readLetters(ctx, d.o.Journal, d.o.Sink)
	if err != nil {
		return out, err
	}
	sink, err := d.o.Open(ctx, d.o.env())
	if err != nil {
		return out, fmt.Errorf("open sink %q: %w", d.o.Sink, err)
	}
	defer func() { err = errors.Join(err, drain.Close("sink", sink.Close, d.o.StopTimeout)) }()
	r := &replay{run: newRun(d, sink), out: Replayed{Left: []Unwritten{}, Refused: []Unwritten{}, Next: -1}, copies: map[int64]*log.Record{}}
	if err := r.recover(ctx, all); err != nil {
		return r.out, err
	}
	for _, l := range all {
		if !s.has(l) {
			continue
		}
		if len(r.chosen) == maxReplay {
			r.out.Next = r.chosen[maxReplay-1].ID
			break
		}
		r.chosen = append(r.chosen, l)
	}
	if err := r.load(ctx); err != nil {
		return r.out, err
	}
	if !s.Superseded {
		if err := r.sift(ctx); err != nil {
			return r.out, err
		}
	}
	for _, topic := range r.topics() {
		mine := slices.DeleteFunc(slices.Clone(r.chosen), func(l *Letter) bool { return l.Topic != topic })
		for part := range slices.Chunk(mine, d.o.Batch.Rows) {
			if err := r.rewrite(ctx, topic, part); err != nil {
				return r.out, err
			}
		}
	}
	return r.out, nil
}

// topics returns those of the chosen letters, in the order of their first.
func (r *replay) topics() (list []string) {
	for _, l := range r.chosen {
		if !slices.Contains(list, l.Topic) {
			list = append(list, l.Topic)
		}
	}
	return list
}

// recover settles letters that were announced and not marked, by the position that the sink holds. A position of another
// log, which could hide what is written now, is put in its place.
func (r *replay) recover(ctx context.Context, all []*Letter) error {
	if r.keeper == nil {
		return nil
	}
	topic, err := r.o.Journal.Topic(ctx, DeadLetters(r.o.Sink))
	if errors.Is(err, log.ErrUnknownTopic) {
		return nil
	}
	if err != nil {
		return err
	}
	end := topic.Partitions[0].LastStable
	announced := map[string]bool{}
	for _, l := range all {
		announced[l.Topic] = announced[l.Topic] || l.tried
	}
	for name, any := range announced {
		held, err := r.keeper.Committed(ctx, ReplayStream(name))
		if err != nil {
			return fmt.Errorf("read position of %s in sink %q: %w", ReplayStream(name), r.o.Sink, err)
		}
		at, err := strconv.ParseInt(string(held), 10, 64)
		if held == nil {
			continue
		}
		if err != nil || at > end || !any {
			if _, err := place(ctx, r.keeper, ReplayStream(name), topic.Partitions[0].LogStart); err != nil {
				return err
			}
			continue
		}
		var written []int64
		for _, l := range all {
			if l.Topic == name && l.mark == letterReplaying && l.markAt < at {
				l.Done, written = letterReplayed, append(written, l.ID)
			}
		}
		if len(written) == 0 {
			continue
		}
		if _, err := markLetters(ctx, r.o.Journal, r.o.Sink, letterReplayed, "", written...); err != nil {
			return err
		}
		r.out.Earlier += len(written)
	}
	return nil
}

// load reads the records of the chosen letters.
func (r *replay) load(ctx context.Context) error {
	if len(r.chosen) == 0 {
		return nil
	}
	wanted := map[int64]bool{}
	for _, l := range r.chosen {
		wanted[l.ID] = true
	}
	tp := log.TopicPartition{Topic: DeadLetters(r.o.Sink)}
	err := scan(ctx, r.o.Journal, tp, r.chosen[0].ID, r.chosen[len(r.chosen)-1].ID+1, func(rec *log.Record) error {
		if wanted[rec.Offset] {
			r.copies[rec.Offset] = cloneRecord(rec)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read dead letters of %s: %w", r.o.Sink, err)
	}
	return nil
}

func cloneRecord(r *log.Record) *log.Record {
	c := &log.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: slices.Clone(r.Headers), Timestamp: r.Timestamp, Offset: r.Offset}
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return c
}

// sift leaves out what is not the newest of its key any more: the letter's partition is read from the letter to its end.
func (r *replay) sift(ctx context.Context) error {
	type lane struct {
		from   int64
		newest map[string]int64 // by key: the offset of its last letter
	}
	lanes := map[log.TopicPartition]*lane{}
	for _, l := range r.chosen {
		tp := log.TopicPartition{Topic: l.Topic, Partition: l.Partition}
		if lanes[tp] == nil {
			lanes[tp] = &lane{from: l.Offset, newest: map[string]int64{}}
		}
		lanes[tp].from = min(lanes[tp].from, l.Offset)
		if l.HasKey {
			lanes[tp].newest[string(r.copies[l.ID].Key)] = l.Offset
		}
	}
	truncated, known := map[log.TopicPartition]int64{}, log.Offsets{}
	for tp, lane := range lanes {
		topic, err := r.o.Journal.Topic(ctx, tp.Topic)
		if errors.Is(err, log.ErrUnknownTopic) || err == nil && int(tp.Partition) >= len(topic.Partitions) {
			known[tp] = 1<<63 - 1
			continue
		}
		if err != nil {
			return err
		}
		part := topic.Partitions[tp.Partition]
		known[tp], truncated[tp] = part.LogStart, -1
		err = scan(ctx, r.o.Journal, tp, max(part.LogStart, lane.from), part.LastStable, func(rec *log.Record) error {
			if _, barrier := codec.BarrierOf(rec); barrier {
				truncated[tp] = rec.Offset
			}
			if at, ok := lane.newest[string(rec.Key)]; ok && rec.Key != nil && rec.Offset > at && rec.Value != nil {
				lane.newest[string(rec.Key)] = rec.Offset
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("look for newer records in %s: %w", Stream(tp), err)
		}
	}
	r.leave(func(l *Letter) string {
		tp := log.TopicPartition{Topic: l.Topic, Partition: l.Partition}
		switch newest, keyed := lanes[tp].newest[string(r.copies[l.ID].Key)]; {
		case truncated[tp] > l.Offset, l.HasKey && keyed && newest > l.Offset:
			return leftSuperseded
		case known[tp] > l.Offset+1:
			return leftUnknown
		}
		return ""
	})
	return nil
}

// leave takes those letters out of the chosen ones for which why has a word.
func (r *replay) leave(why func(*Letter) string) {
	r.chosen = slices.DeleteFunc(r.chosen, func(l *Letter) bool {
		reason := why(l)
		if reason != "" {
			r.out.Left = append(r.out.Left, Unwritten{l.ID, reason})
		}
		return reason != ""
	})
}
