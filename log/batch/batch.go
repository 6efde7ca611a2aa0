// Package batch reads and writes Kafka's record batches, version 2.
//
// It promises bytes that Kafka's own clients and tools read, and reads what they write, in all five codecs; that no
// input makes it panic or take more memory than its limits say; and that neither building nor decoding allocates per
// record. It knows nothing of files, topics or offsets beyond one batch. log/segment, log/disk and the broker call it.
//
// The format is described in Kafka's documentation under "Message format". All numbers are big endian.
//
//	 0 base offset            int64
//	 8 length                 int32   bytes that follow it
//	12 partition leader epoch int32
//	16 magic                  int8    2
//	17 crc                    uint32  CRC-32C of everything from byte 21
//	21 attributes             int16   bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
//	23 last offset delta      int32   last offset minus base offset
//	27 base timestamp         int64   milliseconds
//	35 max timestamp          int64
//	43 producer id            int64   -1: none
//	51 producer epoch         int16
//	53 base sequence          int32
//	57 record count           int32
//	61 records                compressed as one block
//
// The base offset and the leader epoch stand outside the checksum, so that a log can set them in place.
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/trunkline/trunkline/log"
)

const (
	// HeaderSize is the size of a batch without records.
	HeaderSize = 61
	// PrefixSize is how much of a batch tells its size.
	PrefixSize = 12

	magic = 2
)

// Positions of the fields, as in the table above.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57
)

// Bits of the attributes.
const (
	codecMask        = 0x07
	bitLogAppendTime = 0x08
	bitTransactional = 0x10
	bitControl       = 0x20
	bitDeleteHorizon = 0x40
)

// Callers compare with errors.Is.
var (
	ErrShort    = errors.New("batch is cut short")
	ErrCorrupt  = errors.New("batch is damaged")
	ErrMagic    = errors.New("batch is not of version 2")
	ErrTooLarge = errors.New("batch is over the size limit")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// View is one whole batch in its bytes. Parse and CheckHeader make sure that the fields can be read; the accessors
// trust that. A View owns nothing; its setters write into the bytes, which nobody else may read at that time.
type View []byte

// Size returns the size of the batch that begins with b, of which PrefixSize bytes are enough. It is ErrShort with
// fewer, ErrCorrupt if the size cannot be that of a batch.
func Size(b []byte) (int64, error) {
	if len(b) < PrefixSize {
		return 0, ErrShort
	}
	n := int32(binary.BigEndian.Uint32(b[atLength:]))
	if n < HeaderSize-PrefixSize {
		return 0, fmt.Errorf("%w: length %d", ErrCorrupt, n)
	}
	return int64(n) + PrefixSize, nil
}

// CheckHeader checks what can be known from the first HeaderSize bytes without the checksum.
func CheckHeader(b []byte) error {
	if len(b) < HeaderSize {
		return ErrShort
	}
	v := View(b)
	if b[atMagic] != magic {
		return fmt.Errorf("%w: magic %d", ErrMagic, b[atMagic])
	}
	if _, err := Size(b); err != nil {
		return err
	}
	last := v.LastOffsetDelta()
	if v.BaseOffset() < 0 || last < 0 || v.BaseOffset()+int64(last) < 0 {
		return fmt.Errorf("%w: base offset %d, last offset delta %d", ErrCorrupt, v.BaseOffset(), last)
	}
	if n := v.Count(); n < 0 || int64(n) > int64(last)+1 {
		return fmt.Errorf("%w: %d records up to offset delta %d", ErrCorrupt, n, last)
	}
	if v.Codec() > log.CompressionZstd {
		return fmt.Errorf("%w: %v", ErrCorrupt, v.Codec())
	}
	return nil
}

// Parse takes the first batch from b. It checks the header, not the checksum. ErrShort: b ends inside the batch.
func Parse(b []byte) (v View, rest []byte, err error) {
	n, err := Size(b)
	if err != nil {
		return nil, b, err
	}
	if int64(len(b)) < n {
		return nil, b, ErrShort
	}
	if err := CheckHeader(b); err != nil {
		return nil, b, err
	}
	return View(b[:n:n]), b[n:], nil
}

// Verify compares the checksum.
func (v View) Verify() error {
	if sum := crc32.Checksum(v[atAttributes:], castagnoli); sum != v.CRC() {
		return fmt.Errorf("%w: checksum %08x, stored %08x", ErrCorrupt, sum, v.CRC())
	}
	return nil
}

func (v View) int64(at int) int64 { return int64(binary.BigEndian.Uint64(v[at:])) }
func (v View) int32(at int) int32 { return int32(binary.BigEndian.Uint32(v[at:])) }
func (v View) int16(at int) int16 { return int16(binary.BigEndian.Uint16(v[at:])) }

// BaseOffset is the offset of the first record that the batch was made with.
func (v View) BaseOffset() int64 { return v.int64(atBaseOffset) }

// SetBaseOffset moves the batch; the checksum does not cover it.
func (v View) SetBaseOffset(o int64) { binary.BigEndian.PutUint64(v[atBaseOffset:], uint64(o)) }

// Length is the size in bytes, with the 12 bytes that Kafka's length field leaves out.
func (v View) Length() int64 { return int64(v.int32(atLength)) + PrefixSize }

// LeaderEpoch is the epoch of the leader that appended the batch; what a producer sends there means nothing.
func (v View) LeaderEpoch() int32 { return v.int32(atLeaderEpoch) }

// SetLeaderEpoch sets the epoch; the checksum does not cover it.
func (v View) SetLeaderEpoch(e int32) { binary.BigEndian.PutUint32(v[atLeaderEpoch:], uint32(e)) }

// CRC is the stored checksum.
func (v View) CRC() uint32 { return binary.BigEndian.Uint32(v[atCRC:]) }

// Attributes are the flags as they stand.
func (v View) Attributes() int16 { return v.int16(atAttributes) }

// Codec is the compression of the records.
func (v View) Codec() log.Compression { return log.Compression(v.Attributes() & codecMask) }

// LogAppendTime reports whether MaxTimestamp, set by the log, is the time of every record.
func (v View) LogAppendTime() bool { return v.Attributes()&bitLogAppendTime != 0 }

// Transactional reports whether the batch belongs to a transaction of its producer.
func (v View) Transactional() bool { return v.Attributes()&bitTransactional != 0 }

// IsControl reports whether the batch holds a marker instead of records.
func (v View) IsControl() bool { return v.Attributes()&bitControl != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is the time at which compaction may drop the batch's tombstones.
func (v View) HasDeleteHorizon() bool { return v.Attributes()&bitDeleteHorizon != 0 }

// LastOffsetDelta is LastOffset minus BaseOffset.
func (v View) LastOffsetDelta() int32 { return v.int32(atLastOffsetDelta) }

// LastOffset is the offset of the last record that the batch was made with.
func (v View) LastOffset() int64 { return v.BaseOffset() + int64(v.LastOffsetDelta()) }

// NextOffset is LastOffset plus one.
func (v View) NextOffset() int64 { return v.LastOffset() + 1 }

// BaseTimestamp is what the records' timestamps are relative to.
func (v View) BaseTimestamp() int64 { return v.int64(atBaseTimestamp) }

// MaxTimestamp is the largest timestamp of a record, in milliseconds.
func (v View) MaxTimestamp() int64 { return v.int64(atMaxTimestamp) }

// Producer is who made the batch.
func (v View) Producer() Producer {
	return Producer{ID: v.int64(atProducerID), Epoch: v.int16(atProducerEpoch), Sequence: v.int32(atBaseSequence)}
}

// Count is the number of records that are in the batch now; compaction removes some.
func (v View) Count() int32 { return v.int32(atCount) }

// Producer identifies an idempotent or transactional producer and the number of its first record in a batch.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// NoProducer stands in batches whose producer wants neither.
var NoProducer = Producer{ID: -1, Epoch: -1, Sequence: -1}

// seal writes the header in front of the records of dst[from:], whose attributes and the rest are given.
func seal(b []byte, h header) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(h.baseOffset))
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-PrefixSize))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(h.leaderEpoch))
	b[atMagic] = magic
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(h.attributes))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(h.lastOffsetDelta))
	binary.BigEndian.PutUint64(b[atBaseTimestamp:], uint64(h.baseTimestamp))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(h.maxTimestamp))
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(h.producer.ID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(h.producer.Epoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(h.producer.Sequence))
	binary.BigEndian.PutUint32(b[atCount:], uint32(h.count))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}

// header is what seal writes.
type header struct {
	baseOffset      int64
	leaderEpoch     int32
	attributes      int16
	lastOffsetDelta int32
	baseTimestamp   int64
	maxTimestamp    int64
	producer        Producer
	count           int32
}
