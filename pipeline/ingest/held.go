package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/drain"
	"github.com/trunkline/trunkline/pipeline/pause"
)

// A table that is paused at its source goes on being read: what comes of it waits in a topic of its own, and the source is
// told that it is durable, so that a pause holds nothing back on the server. Once the pause is over, and before anything
// else is read, the waiting records move into the topics that they were for, in order. Each step is one transaction of
// the source's producer, with the offset up to which it came, so that a crash on the way doubles nothing.

// HeldPrefix begins the names of the topics in which changes of paused tables wait.
const HeldPrefix = log.InternalPrefix + "held."

const (
	// heldRoom is what the address of a waiting record may add to its size.
	heldRoom = 1 << 10
	// heldStep is how many records move in one transaction.
	heldStep = 5000
	// maxHeldName leaves room for the number of the partition in the name of a folder.
	maxHeldName = 200
)

// HeldTopic names the topic in which the changes of a paused table wait.
func HeldTopic(source, table string) string {
	name := source + "." + table
	clean := legal(name)
	if clean != name || len(clean) > maxHeldName {
		sum := sha256.Sum256([]byte(name))
		clean = clean[:min(len(clean), maxHeldName)] + "-" + hex.EncodeToString(sum[:4])
	}
	return HeldPrefix + clean
}

func (g *Ingest) target(table string) pause.Target {
	return pause.Target{Role: "source", Name: g.o.Source, Table: table}
}

// followPauses looks anew at all routes when somebody paused or resumed a table, which so takes effect with the next batch.
// What waited of a table moves when the source is opened next.
func (w *writer) followPauses(ctx context.Context) error {
	if w.o.Pauses == nil {
		return nil
	}
	n := w.o.Pauses.Words()
	if n == w.pausesSeen {
		return nil
	}
	for _, r := range w.routes {
		if err := w.hold(ctx, r); err != nil {
			return err
		}
	}
	w.pausesSeen = n
	return nil
}

// hold sends what comes of a paused table to the topic where it waits. A table that was resumed goes on waiting until the
// source is opened anew: what waits comes first.
func (w *writer) hold(ctx context.Context, r *route) error {
	table := r.table.FullName()
	if r.held != nil || w.o.Pauses == nil || !w.o.Pauses.Waits(w.target(table)) {
		return nil
	}
	name := HeldTopic(w.o.Source, table)
	if err := w.o.Pauses.Hold(ctx, w.target(table), name); err != nil {
		return fmt.Errorf("hold changes of %s: %w", table, err)
	}
	config := log.TopicConfig{Partitions: 1, Retention: log.Forever}
	if r.maxBytes > 0 {
		config.MaxRecordBytes = r.maxBytes + heldRoom
	}
	if _, err := w.ensureTopic(ctx, name, config); err != nil {
		return fmt.Errorf("hold changes of %s: %w", table, err)
	}
	r.held = w.partition(log.TopicPartition{Topic: name})
	return nil
}

// address is the header of a waiting record: where it is to go.
func address(tp log.TopicPartition) log.Header {
	return log.Header{Key: codec.HeaderHeld, Value: []byte(tp.Topic + "/" + strconv.Itoa(int(tp.Partition)))}
}

// parseAddress takes the address off a record.
func parseAddress(r *log.Record) (log.TopicPartition, error) {
	for i, h := range r.Headers {
		if h.Key != codec.HeaderHeld {
			continue
		}
		topic, number, _ := strings.Cut(string(h.Value), "/")
		partition, err := strconv.ParseInt(number, 10, 32)
		if err != nil || topic == "" {
			break
		}
		r.Headers = append(r.Headers[:i:i], r.Headers[i+1:]...)
		return log.TopicPartition{Topic: topic, Partition: int32(partition)}, nil
	}
	return log.TopicPartition{}, fmt.Errorf("the record at offset %d does not say where it belongs: %w", r.Offset, connectors.ErrFatal)
}

// moveHeld moves what waited of tables that are not paused any more. The source is not open yet.
func (g *Ingest) moveHeld(ctx context.Context, producer log.Producer, mark []byte) error {
	if g.o.Pauses == nil {
		return nil
	}
	if _, err := g.o.Pauses.CatchUp(ctx); err != nil {
		return err
	}
	for t, h := range g.o.Pauses.Held(g.o.Source) {
		if _, paused := g.o.Pauses.Paused(t); paused {
			continue
		}
		m := &mover{Ingest: g, producer: producer, mark: mark, target: t, held: h, sizes: map[string]int32{}}
		if err := m.run(ctx); err != nil {
			return fmt.Errorf("move what waited of table %s: %w", t.Table, err)
		}
	}
	return nil
}

// mover moves the waiting changes of one table.
type mover struct {
	*Ingest
	producer log.Producer
	mark     []byte // of the source; it stays
	target   pause.Target
	held     pause.Held
	sizes    map[string]int32 // partitions of the topics that records are for
	moved    int
}

func (m *mover) run(ctx context.Context) error {
	topic, err := m.o.Journal.Topic(ctx, m.held.Topic)
	if errors.Is(err, log.ErrUnknownTopic) { // none came, or the topic is gone as the last step of an earlier move
		return m.o.Pauses.Release(ctx, m.target)
	}
	if err != nil {
		return err
	}
	tp := log.TopicPartition{Topic: topic.Name}
	next, end := m.held.Next(topic), topic.Partitions[0].LastStable
	if next < end {
		consumer, err := m.o.Journal.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
		if err != nil {
			return err
		}
		err = consumer.Seek(tp, next)
		for err == nil && next < end {
			next, err = m.step(ctx, topic, consumer)
		}
		if err = errors.Join(err, drain.Close("consumer", consumer.Close, m.o.CloseTimeout)); err != nil {
			return err
		}
	}
	m.o.Logger.Info("moved what waited while the table was paused", "source", m.o.Source, "table", m.target.Table, "records", m.moved)
	if err := m.o.Journal.DeleteTopic(ctx, topic.Name); err != nil && !errors.Is(err, log.ErrUnknownTopic) {
		return err
	}
	return m.o.Pauses.Release(ctx, m.target)
}

// step moves one fetch and notes it, in one transaction.
func (m *mover) step(ctx context.Context, topic log.Topic, consumer log.Consumer) (next int64, err error) {
	f, err := consumer.Poll(ctx, heldStep)
	if err != nil {
		return 0, err
	}
	var order []log.TopicPartition
	parts := map[log.TopicPartition][]log.Record{}
	for i := range f.Records {
		r := f.Records[i]
		to, err := parseAddress(&r)
		if err == nil {
			to, err = m.fit(ctx, to)
		}
		if err != nil {
			return 0, err
		}
		if parts[to] == nil {
			order = append(order, to)
		}
		r.Offset = 0
		parts[to] = append(parts[to], r)
	}
	for _, to := range order {
		if err := m.producer.Append(ctx, to, parts[to]...); err != nil {
			return 0, fmt.Errorf("append to %s-%d: %w", to.Topic, to.Partition, err)
		}
	}
	progress := pause.Moved(m.target, m.held.Through(topic, f.Next))
	if err := m.producer.Append(ctx, pause.Partition, progress); err != nil {
		return 0, fmt.Errorf("append to %s: %w", pause.Topic, err)
	}
	if err := m.producer.Commit(ctx, m.mark); err != nil {
		return 0, fmt.Errorf("commit source %q: %w", m.o.Source, err)
	}
	m.o.Pauses.Note(progress)
	m.moved += len(f.Records)
	return f.Next, nil
}

// fit finds the partition as the topic is now: it may have been deleted meanwhile.
func (m *mover) fit(ctx context.Context, to log.TopicPartition) (log.TopicPartition, error) {
	n, known := m.sizes[to.Topic]
	if !known {
		topic, err := m.ensureTopic(ctx, to.Topic, m.o.Topics)
		if err != nil {
			return to, err
		}
		n = int32(len(topic.Partitions))
		m.sizes[to.Topic] = n
	}
	to.Partition %= n
	return to, nil
}
