package codec

import (
	"bytes"
	"context"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// Move ties the two records of a row that got another key: the delete of the old key and the insert of the new one. It
// stands on those of which a reader that keeps rows has to know both at once: the new row lacks columns that only the old
// row has, or the two keys may be equal to a database.
//
//	header of the delete   ID PARTITION             the partition of the insert
//	header of the delete   ID PARTITION =           likewise; the keys may be equal
//	header of the insert   ID PARTITION {"id":7}    the partition of the delete, and the old key
//
// ID is decimal, and grows with each move and each truncate of a source.
type Move struct {
	ID        int64
	Partition int32  // of the other record
	Twin      bool   // of the delete: the two keys may be equal
	Key       []byte // of the insert: the old key; of the delete: nil
}

// AppendMove appends the header's value.
func AppendMove(dst []byte, m Move) []byte {
	dst = strconv.AppendInt(dst, m.ID, 10)
	dst = strconv.AppendInt(append(dst, ' '), int64(m.Partition), 10)
	switch {
	case m.Key != nil:
		dst = append(append(dst, ' '), m.Key...)
	case m.Twin:
		dst = append(dst, " ="...)
	}
	return dst
}

// MoveOf reads the header of a record; false if it has none that can be read.
func MoveOf(r *log.Record) (Move, bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderMove {
			return parseMove(r.Headers[i].Value)
		}
	}
	return Move{}, false
}

func parseMove(value []byte) (m Move, ok bool) {
	parts := bytes.SplitN(value, []byte{' '}, 3)
	if len(parts) < 2 {
		return Move{}, false
	}
	id, err := strconv.ParseInt(string(parts[0]), 10, 64)
	if err != nil {
		return Move{}, false
	}
	partition, err := strconv.ParseInt(string(parts[1]), 10, 32)
	if err != nil || partition < 0 {
		return Move{}, false
	}
	m = Move{ID: id, Partition: int32(partition)}
	if len(parts) == 3 {
		if m.Twin = string(parts[2]) == "="; !m.Twin {
			m.Key = parts[2]
		}
	}
	return m, true
}

// DecodeMove turns the insert of a move, as Decode read it, into the update that it was: Before holds the old key.
func (d *Decoder) DecodeMove(ctx context.Context, r *log.Record, m Move, c *connectors.Change, arena *Arena) error {
	p, err := d.planOf(ctx, r)
	if err != nil {
		return err
	}
	before, rest, err := p.decodeRow(m.Key, arena)
	if err != nil || len(rest) > 0 || before == nil {
		return refuse("header %s holds no key", HeaderMove)
	}
	c.Op, c.Before = connectors.Update, before
	return nil
}
