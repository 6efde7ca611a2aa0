package deliver

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// past reads a partition from its beginning, or from where the file ends, to make its cover. A row that came from another
// partition under a new key lacks what its old record has, so that partition is read too, as far as the record that let
// the row go, and what it had there is kept under the number of the move. Numbers of moves grow in every partition: when
// a partition waits for another one, whatever that one waits for has been passed already.
type past struct {
	r        *run
	topic    log.Topic
	name     string // of what it has in the file for a while
	rewound  map[int32]*rewound
	kept     *cover // rows that moved, by the number of the move
	moves    string // the stream of these
	borrowed []string
}

// rewound is a partition that is read again.
type rewound struct {
	partition
	consumer log.Consumer
	decoder  *codec.Decoder
	arena    codec.Arena
	fetch    log.Fetch
	at       int // the next record of fetch
	end      int64
	reading  bool // further up the stack
}

func (r *run) newPast(p *partition, topic log.Topic) *past {
	return &past{r: r, topic: topic, name: "past of " + p.rows, rewound: map[int32]*rewound{}, kept: newCover()}
}

// open begins to read a partition at next. stream is where its rows are in the file.
func (h *past) open(ctx context.Context, i int32, stream string, next, end int64) (*rewound, error) {
	tp := log.TopicPartition{Topic: h.topic.Name, Partition: i}
	consumer, err := h.r.o.Journal.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{tp}, MaxBytes: h.r.o.Batch.Bytes})
	if err != nil {
		return nil, err
	}
	w := &rewound{consumer: consumer, decoder: codec.NewDecoder(h.r.o.Schemas), end: end,
		partition: partition{TopicPartition: tp, stream: stream, next: next, rows: stream, cover: newCover(), past: h}}
	h.rewound[i] = w
	return w, consumer.Seek(tp, next)
}

// borrow opens a partition for its moves alone. Its rows are forgotten in the end.
func (h *past) borrow(ctx context.Context, i int32) (*rewound, error) {
	if w := h.rewound[i]; w != nil || int(i) >= len(h.topic.Partitions) {
		return w, nil
	}
	stream, err := h.scratch(ctx, strconv.Itoa(int(i)))
	if err != nil {
		return nil, err
	}
	found := h.topic.Partitions[i]
	return h.open(ctx, i, stream, found.LogStart, found.HighWatermark)
}

// scratch returns a stream of the file that is empty, and is so again in the end.
func (h *past) scratch(ctx context.Context, what string) (string, error) {
	stream := h.name + " " + what
	h.borrowed = append(h.borrowed, stream)
	return stream, h.r.rows.drop(ctx, stream)
}

func (h *past) close(ctx context.Context) (err error) {
	for _, w := range h.rewound {
		err = errors.Join(err, w.consumer.Close(ctx))
	}
	for _, stream := range h.borrowed {
		err = errors.Join(err, h.r.rows.drop(context.WithoutCancel(ctx), stream))
	}
	return err
}

// read goes on with a partition up to the record that lets the row of a move go, or with 0 to its end. It returns false
// where there is no such record.
func (h *past) read(ctx context.Context, w *rewound, move int64) (bool, error) {
	if w.reading { // it stands where that record ought to have been before
		return false, nil
	}
	w.reading = true
	defer func() { w.reading = false }()
	for {
		for w.at < len(w.fetch.Records) {
			record := &w.fetch.Records[w.at]
			w.at++
			if record.Offset >= w.end {
				break
			}
			id, err := h.take(ctx, w, record)
			if err != nil {
				return false, err
			}
			if id != 0 && id == move {
				return true, nil
			}
		}
		w.at = len(w.fetch.Records)
		if err := h.settle(ctx, w); err != nil || w.next >= w.end {
			return false, err
		}
		var err error
		if w.fetch, err = w.consumer.Poll(ctx, h.r.o.Batch.Rows); err != nil {
			return false, err
		}
		w.at, w.next = 0, w.fetch.Next
		w.arena.Reset()
	}
}

// settle stores what is known of a partition whose fetch is done.
func (h *past) settle(ctx context.Context, w *rewound) error {
	if h.kept.full() {
		if err := h.r.storeRows(ctx, h.moves, h.kept, 0); err != nil {
			return err
		}
	}
	if !w.cover.full() && w.next < w.end {
		return nil
	}
	return h.r.storeRows(ctx, w.rows, w.cover, min(w.next, w.end))
}

// take notes the row of a record. It returns the number of the move that takes the row to another partition; 0: none.
func (h *past) take(ctx context.Context, w *rewound, record *log.Record) (int64, error) {
	var change connectors.Change
	ok, err := w.decoder.Decode(ctx, record, &change, &w.arena)
	var unreadable *codec.RecordError
	if err != nil && !errors.As(err, &unreadable) {
		return 0, err
	}
	if !ok || err != nil {
		return 0, nil
	}
	if err := h.r.complete(ctx, &w.partition, record, &change); err != nil {
		return 0, err
	}
	m, ok := codec.MoveOf(record)
	if !ok || m.Key != nil || m.Partition == w.Partition {
		return 0, nil
	}
	row, err := h.r.rowAt(ctx, &w.partition, rowKey{change.Table.FullName(), string(record.Key)})
	if row != nil {
		h.kept.pending[moveKey(m.ID)] = row
		h.kept.bytes += len(row.row) + 64
	}
	return m.ID, err
}

func moveKey(id int64) rowKey { return rowKey{key: strconv.FormatInt(id, 10)} }

// rowOf returns the row that a move has brought, as it was under its old key; nil if the log does not have it.
func (h *past) rowOf(ctx context.Context, m codec.Move) (*storedRow, error) {
	row, err := h.rowKept(ctx, m)
	if row != nil || err != nil {
		return row, err
	}
	w, err := h.borrow(ctx, m.Partition)
	if w == nil || err != nil {
		return nil, err
	}
	if found, err := h.read(ctx, w, m.ID); !found || err != nil {
		return nil, err
	}
	return h.rowKept(ctx, m)
}

func (h *past) rowKept(ctx context.Context, m codec.Move) (*storedRow, error) {
	row, known := h.kept.pending[moveKey(m.ID)]
	if known {
		return row, nil
	}
	return h.r.rows.get(ctx, h.moves, moveKey(m.ID))
}

// readPast fills the cover of a partition with its records from one offset up to another.
func (r *run) readPast(ctx context.Context, p *partition, topic log.Topic, next, end int64) (c *cover, err error) {
	h := r.newPast(p, topic)
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	if h.moves, err = h.scratch(ctx, "moves"); err != nil {
		return nil, err
	}
	w, err := h.open(ctx, p.Partition, p.rows, next, end)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	_, err = h.read(ctx, w, 0)
	return w.cover, err
}
