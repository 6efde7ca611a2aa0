package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/trunkline/trunkline/log"
)

// Marker is what a control batch says about the transaction of its producer.
type Marker int16

// The numbers are Kafka's.
const (
	Abort  Marker = 0
	Commit Marker = 1
)

func (m Marker) String() string {
	switch m {
	case Abort:
		return "abort"
	case Commit:
		return "commit"
	}
	return fmt.Sprintf("marker %d", int16(m))
}

// AppendMarker appends a control batch that ends the transaction of a producer. It takes one offset. Its record:
//
//	key    int16 version 0, int16 marker (0 abort, 1 commit)
//	value  int16 version 0, int32 coordinator epoch
func AppendMarker(dst []byte, m Marker, id int64, epoch int16, coordinatorEpoch int32, timestamp int64) []byte {
	var key [4]byte
	var value [6]byte
	binary.BigEndian.PutUint16(key[2:], uint16(m))
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	var b Builder
	b.Append(&log.Record{Key: key[:], Value: value[:]}, timestamp)
	from := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = append(dst, b.records...)
	seal(dst[from:], header{
		attributes: bitTransactional | bitControl, baseTimestamp: timestamp, maxTimestamp: timestamp,
		producer: Producer{ID: id, Epoch: epoch, Sequence: -1}, count: 1,
	})
	return dst
}

// Marker reads a control batch. Markers that are not known here are returned as they are: they end no transaction.
func (v View) Marker() (Marker, error) {
	if !v.IsControl() || v.Codec() != log.CompressionNone {
		return 0, fmt.Errorf("%w: not a plain control batch", ErrCorrupt)
	}
	it := iterator{p: v[HeaderSize:], left: v.Count(), last: -1, max: v.LastOffsetDelta()}
	var r log.Record
	if ok := it.next(&r); !ok {
		return 0, fmt.Errorf("%w: control batch: %w", ErrCorrupt, it.problem())
	}
	if len(r.Key) < 4 || binary.BigEndian.Uint16(r.Key) > 0x7fff {
		return 0, fmt.Errorf("%w: control record with a key of %d bytes", ErrCorrupt, len(r.Key))
	}
	return Marker(binary.BigEndian.Uint16(r.Key[2:])), nil
}
