// Package pause keeps what people have paused in the log itself, so that a pause outlives the process, a new
// configuration and the move of a source to another process.
//
// It promises that what is set is durable when the call returns, and that the newest word about a source, a sink or a
// table is the one that counts. It stops nothing: packages pipeline and ingest ask it and obey. All methods of Book may
// be called at the same time.
package pause

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trunkline/trunkline/log"
)

// Topic holds the newest word about each pause, one record for each key.
const Topic = log.InternalPrefix + "pauses"

// Partition is the only one of Topic.
var Partition = log.TopicPartition{Topic: Topic}

// Target is what can be paused.
type Target struct {
	Role  string `json:"role"` // source or sink
	Name  string `json:"name"`
	Table string `json:"table,omitempty"` // empty: the whole
}

// Held says where the changes of a table wait that was paused at its source.
type Held struct {
	Topic string `json:"topic"`
	// ID is of the topic, in hex: a topic of the same name that is made later has another. Moved is the offset behind
	// the last change that stands in the table's own topic by now; both are zero until the first one does.
	ID    string `json:"id,omitempty"`
	Moved int64  `json:"moved,omitempty"`
}

// Next returns where moving goes on in the topic as it is now.
func (h Held) Next(t log.Topic) int64 {
	if h.ID == hex.EncodeToString(t.ID[:]) {
		return max(h.Moved, t.Partitions[0].LogStart)
	}
	return t.Partitions[0].LogStart
}

// Through returns h with everything below next moved.
func (h Held) Through(t log.Topic, next int64) Held {
	h.ID, h.Moved = hex.EncodeToString(t.ID[:]), next
	return h
}

// key is the key of a record: the kind of fact and what it is about.
type key struct {
	Kind string `json:"kind"` // paused or held
	Target
}

const (
	kindPaused = "paused"
	kindHeld   = "held"
)

// paused is the value of a record about a pause.
type paused struct {
	Since time.Time `json:"since"`
}

// Book is the pauses of one log.
type Book struct {
	journal log.Log

	log  sync.Mutex // held while the log is read or written
	next int64      // offset of the first record that was not read yet

	mu     sync.Mutex // guards the rest
	paused map[Target]time.Time
	held   map[Target]Held
	words  int64 // how many words about pauses were taken in
}

// New returns the book of a log. It is empty until CatchUp.
func New(journal log.Log) *Book {
	return &Book{journal: journal, paused: map[Target]time.Time{}, held: map[Target]Held{}}
}

// Paused reports whether the target itself is paused, and since when.
func (b *Book) Paused(t Target) (since time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, ok = b.paused[t]
	return since, ok
}

// Words counts what was said about pauses so far: while it stays the same, nothing is paused or resumed.
func (b *Book) Words() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.words
}

// Waits reports whether the changes of a source's table are to wait: it is paused, or what came before waits still.
func (b *Book) Waits(t Target) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, is := b.paused[t]
	_, held := b.held[t]
	return is || held
}

// Tables returns the paused tables of a source or sink, by name.
func (b *Book) Tables(role, name string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for t := range b.paused {
		if t.Role == role && t.Name == name && t.Table != "" {
			out = append(out, t.Table)
		}
	}
	slices.Sort(out)
	return out
}

// All returns everything that is paused, in a fixed order.
func (b *Book) All() []Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Target, 0, len(b.paused))
	for t := range b.paused {
		out = append(out, t)
	}
	slices.SortFunc(out, func(x, y Target) int {
		return cmp.Or(cmp.Compare(x.Role, y.Role), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Table, y.Table))
	})
	return out
}

// Held returns the tables of a source whose changes wait, paused still or not.
func (b *Book) Held(name string) map[Target]Held {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[Target]Held{}
	for t, h := range b.held {
		if t.Name == name {
			out[t] = h
		}
	}
	return out
}

// Set pauses a target, or ends its pause.
func (b *Book) Set(ctx context.Context, t Target, pause bool) error {
	if _, is := b.Paused(t); is == pause {
		return nil
	}
	record := log.Record{Key: encode(key{kindPaused, t})}
	if pause {
		record.Value = encode(paused{time.Now().UTC()})
	}
	if err := b.append(ctx, record); err != nil {
		return fmt.Errorf("keep the pause of %s %s in the log: %w", t.Role, t.Name, err)
	}
	return nil
}

// Hold notes that the changes of a table begin to wait in a topic. It is durable before the first of them.
func (b *Book) Hold(ctx context.Context, t Target, topic string) error {
	b.mu.Lock()
	h, known := b.held[t]
	b.mu.Unlock()
	if known && h.Topic == topic {
		return nil
	}
	return b.append(ctx, Moved(t, Held{Topic: topic}))
}

// Moved is the record that says how far the changes of a table were moved. It belongs into the transaction that moves
// them; Note tells the book once that is committed.
func Moved(t Target, h Held) log.Record {
	return log.Record{Key: encode(key{kindHeld, t}), Value: encode(h)}
}

// Note takes in a record that the caller has written.
func (b *Book) Note(r log.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(&r)
}

// Release forgets that changes of a table waited: all are moved.
func (b *Book) Release(ctx context.Context, t Target) error {
	return b.append(ctx, log.Record{Key: encode(key{kindHeld, t})})
}

// append writes one record, and makes the topic if there is none.
func (b *Book) append(ctx context.Context, r log.Record) error {
	b.log.Lock()
	defer b.log.Unlock()
	if err := Ensure(ctx, b.journal); err != nil {
		return err
	}
	if _, err := b.journal.Append(ctx, Partition, r); err != nil {
		return err
	}
	b.Note(r)
	return nil
}

// Ensure makes the topic if there is none.
func Ensure(ctx context.Context, journal log.Log) error {
	_, err := journal.Topic(ctx, Topic)
	if !errors.Is(err, log.ErrUnknownTopic) {
		return err
	}
	err = journal.CreateTopic(ctx, Topic, log.TopicConfig{Partitions: 1, Retention: log.Forever, Compact: true})
	if errors.Is(err, log.ErrTopicExists) {
		return nil
	}
	return err
}

// CatchUp reads what was written since the last call, by this process or another, and reports whether there was any.
func (b *Book) CatchUp(ctx context.Context) (news bool, err error) {
	b.log.Lock()
	defer b.log.Unlock()
	topic, err := b.journal.Topic(ctx, Topic)
	if errors.Is(err, log.ErrUnknownTopic) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read pauses: %w", err)
	}
	end := topic.Partitions[0].LastStable
	if b.next >= end {
		return false, nil
	}
	consumer, err := b.journal.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{Partition}})
	if err != nil {
		return false, fmt.Errorf("read pauses: %w", err)
	}
	err = b.read(ctx, consumer, end)
	if err = errors.Join(err, consumer.Close(context.WithoutCancel(ctx))); err != nil {
		return false, fmt.Errorf("read pauses: %w", err)
	}
	return true, nil
}

func (b *Book) read(ctx context.Context, consumer log.Consumer, end int64) error {
	if err := consumer.Seek(Partition, b.next); err != nil {
		return err
	}
	for b.next < end {
		f, err := consumer.Poll(ctx, 1000)
		if err != nil {
			return err
		}
		b.mu.Lock()
		for i := range f.Records {
			b.take(&f.Records[i])
		}
		b.mu.Unlock()
		b.next = f.Next
	}
	return nil
}

// take applies one record. What this version does not know it passes over. The lock is held.
func (b *Book) take(r *log.Record) {
	var k key
	if json.Unmarshal(r.Key, &k) != nil {
		return
	}
	switch k.Kind {
	case kindPaused:
		b.words++
		var p paused
		if r.Value == nil {
			delete(b.paused, k.Target)
		} else if json.Unmarshal(r.Value, &p) == nil {
			b.paused[k.Target] = p.Since
		}
	case kindHeld:
		var h Held
		if r.Value == nil {
			delete(b.held, k.Target)
		} else if json.Unmarshal(r.Value, &h) == nil {
			b.held[k.Target] = h
		}
	}
}

// encode writes what always can be written: structs of texts, numbers and times.
func encode(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // into memory
	return bytes.TrimSpace(out.Bytes())
}
