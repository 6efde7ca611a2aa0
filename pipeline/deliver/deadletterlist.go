package deliver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/log"
)

// HeaderLetterMark stands on records of the dead-letter topic that say what became of a letter: its value is the letter's
// offset in that topic, and the record's value is one of the outcomes below.
const HeaderLetterMark = "trunkline.deadletter.mark"

// Outcomes of a letter. A letter whose last mark is replaying was on its way into the sink when the program ended.
const (
	letterReplaying = "replaying"
	letterReplayed  = "replayed"
	letterDiscarded = "discarded"
	letterRefused   = "refused" // again; a header holds the reason
)

// Letter is a record that a sink refused.
type Letter struct {
	ID        int64     `json:"id"` // its offset in the dead-letter topic
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"` // of the record
	HasKey    bool      `json:"has_key"`
	Reason    string    `json:"reason"`
	Done      string    `json:"done,omitempty"`  // replayed or discarded; empty: it waits for a person
	Key       []byte    `json:"key,omitempty"`   // only where values are asked for
	Value     []byte    `json:"value,omitempty"` // likewise

	mark   string // the last one
	markAt int64
	tried  bool // it was announced for a replay
}

// Letters is what there is in the dead-letter topic of a sink.
type Letters struct {
	Letters []Letter `json:"letters"` // oldest first
	Waiting int      `json:"waiting"` // how many wait for a person; there may be more than are listed
	Done    int      `json:"done"`
}

// LetterQuery says which letters to list.
type LetterQuery struct {
	Max    int  // at most so many; 0: all
	Done   bool // those that were replayed or discarded too
	Values bool // with the keys and values of the records
}

// ListLetters reads the dead-letter topic of a sink.
func ListLetters(ctx context.Context, journal log.Log, sink string, q LetterQuery) (Letters, error) {
	all, err := readLetters(ctx, journal, sink)
	if err != nil {
		return Letters{}, err
	}
	out := Letters{Letters: []Letter{}}
	for _, l := range all {
		if l.Done == "" {
			out.Waiting++
		} else {
			out.Done++
		}
		if (l.Done == "" || q.Done) && (q.Max <= 0 || len(out.Letters) < q.Max) {
			out.Letters = append(out.Letters, *l)
		}
	}
	if !q.Values || len(out.Letters) == 0 {
		return out, nil
	}
	tp := log.TopicPartition{Topic: DeadLetters(sink)}
	err = scan(ctx, journal, tp, out.Letters[0].ID, out.Letters[len(out.Letters)-1].ID+1, func(r *log.Record) error {
		i, ok := slices.BinarySearchFunc(out.Letters, r.Offset, func(l Letter, offset int64) int { return cmp.Compare(l.ID, offset) })
		if ok {
			out.Letters[i].Key, out.Letters[i].Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		}
		return nil
	})
	return out, err
}

// place of a record that became a letter.
type letterPlace struct {
	topic     string
	partition int32
	offset    int64
}

// readLetters returns all letters, by their ids. Copies of one letter, which a crash can leave, count as one; a copy
// after the letter was done is a new one, because its sink met the record again.
func readLetters(ctx context.Context, journal log.Log, sink string) ([]*Letter, error) {
	tp := log.TopicPartition{Topic: DeadLetters(sink)}
	topic, err := journal.Topic(ctx, tp.Topic)
	if errors.Is(err, log.ErrUnknownTopic) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letters of %s: %w", sink, err)
	}
	var list []*Letter
	byID, byPlace := map[int64]*Letter{}, map[letterPlace]*Letter{}
	words := map[string]string{} // reasons and topics repeat
	same := func(b []byte) string {
		if s, ok := words[string(b)]; ok {
			return s
		}
		s := string(b)
		words[s] = s
		return s
	}
	part := topic.Partitions[0]
	err = scan(ctx, journal, tp, part.LogStart, part.LastStable, func(r *log.Record) error {
		if id, ok := letterHeader(r, HeaderLetterMark); ok {
			if l := byID[id]; l != nil {
				l.note(r, same)
			}
			return nil
		}
		l := &Letter{ID: r.Offset, Time: time.UnixMilli(r.Timestamp).UTC(), HasKey: r.Key != nil}
		for _, h := range r.Headers {
			switch h.Key {
			case HeaderLetterTopic:
				l.Topic = same(h.Value)
			case HeaderLetterReason:
				l.Reason = same(h.Value)
			}
		}
		partition, _ := letterHeader(r, HeaderLetterPartition)
		l.Partition = int32(partition)
		l.Offset, _ = letterHeader(r, HeaderLetterOffset)
		at := letterPlace{l.Topic, l.Partition, l.Offset}
		if old := byPlace[at]; old != nil && old.Done == "" {
			byID[l.ID] = old
			return nil
		}
		byPlace[at], byID[l.ID] = l, l
		list = append(list, l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read dead letters of %s: %w", sink, err)
	}
	return list, nil
}

// note takes over what a mark says.
func (l *Letter) note(r *log.Record, same func([]byte) string) {
	l.mark, l.markAt = same(r.Value), r.Offset
	l.tried = l.tried || l.mark == letterReplaying
	switch l.mark {
	case letterReplayed, letterDiscarded:
		l.Done = l.mark
	case letterRefused:
		for _, h := range r.Headers {
			if h.Key == HeaderLetterReason {
				l.Reason = same(h.Value)
			}
		}
	}
}

// letterHeader reads a number.
func letterHeader(r *log.Record, key string) (int64, bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == key {
			n, err := strconv.ParseInt(string(r.Headers[i].Value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// markLetters appends what became of letters and returns the offset of the first mark; the others follow it. A mark has a
// key of its own, so that it survives where the topic was made to be compacted.
func markLetters(ctx context.Context, journal log.Log, sink, outcome, reason string, ids ...int64) (int64, error) {
	records := make([]log.Record, len(ids))
	for i, id := range ids {
		text := strconv.AppendInt(nil, id, 10)
		records[i] = log.Record{
			Key: append([]byte(HeaderLetterMark+" "), text...), Value: []byte(outcome),
			Headers: []log.Header{{Key: HeaderLetterMark, Value: text}},
		}
		if reason != "" {
			records[i].Headers = append(records[i].Headers, log.Header{Key: HeaderLetterReason, Value: []byte(reason)})
		}
	}
	first, err := journal.Append(ctx, log.TopicPartition{Topic: DeadLetters(sink)}, records...)
	if err != nil {
		return 0, fmt.Errorf("mark dead letters of %s as %s: %w", sink, outcome, err)
	}
	return first, nil
}

// scan calls each with the records of one partition from an offset to an end. A record is valid during the call.
func scan(ctx context.Context, journal log.Log, tp log.TopicPartition, from, end int64, each func(*log.Record) error) (err error) {
	if from >= end {
		return nil
	}
	consumer, err := journal.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consumer.Close(context.WithoutCancel(ctx))) }()
	if err := consumer.Seek(tp, from); err != nil {
		return err
	}
	for next := from; next < end; {
		fetch, err := consumer.Poll(ctx, scanRecords)
		if err != nil {
			return err
		}
		for i := range fetch.Records {
			if fetch.Records[i].Offset >= end {
				return nil
			}
			if err := each(&fetch.Records[i]); err != nil {
				return err
			}
		}
		next = fetch.Next
	}
	return nil
}

// scanRecords is how many records a scan takes at a time.
const scanRecords = 2000
