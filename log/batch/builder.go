package batch

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/trunkline/trunkline/log"
)

// MaxSize is the largest batch that the format can hold and Kafka's clients take.
const MaxSize = math.MaxInt32

// Builder collects the records of one batch and is used again for the next. It belongs to one goroutine. The zero
// value is ready.
type Builder struct {
	records       []byte // encoded, not compressed
	count         int32
	lastDelta     int32
	baseTimestamp int64
	maxTimestamp  int64
	fixedBase     bool   // baseTimestamp does not come from the first record
	old           header // of ResetFor
}

// Reset empties the builder and keeps its memory.
func (b *Builder) Reset() {
	*b = Builder{records: b.records[:0]}
}

// Count returns the number of records.
func (b *Builder) Count() int { return int(b.count) }

// Size returns the size of the batch so far if it were not compressed.
func (b *Builder) Size() int { return HeaderSize + len(b.records) }

// MaxTimestamp returns the largest timestamp so far; 0 without records.
func (b *Builder) MaxTimestamp() int64 { return b.maxTimestamp }

// Append adds a record behind the last one. timestamp, in milliseconds, stands in place of r.Timestamp; r.Offset is not
// read. Nothing of r is kept. The record stands as:
//
//	length       varint  bytes that follow it
//	attributes   int8    0
//	timestamp    varint  minus that of the first record
//	offset       varint  minus base offset
//	key length   varint  -1: null
//	key
//	value length varint  -1: null
//	value
//	headers      varint  number of headers, each:
//	  key length varint, key, value length varint (-1: null), value
func (b *Builder) Append(r *log.Record, timestamp int64) {
	delta := int32(0)
	if b.count > 0 {
		delta = b.lastDelta + 1
	}
	b.AppendAt(r, timestamp, delta)
}

// AppendAt adds a record delta offsets behind the base, which must be more than that of the one before. Compaction
// uses it to leave holes where records were.
func (b *Builder) AppendAt(r *log.Record, timestamp int64, delta int32) {
	if b.count == 0 {
		b.maxTimestamp = timestamp
		if !b.fixedBase {
			b.baseTimestamp = timestamp
		}
	}
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
	b.count++
	b.lastDelta = delta
	sinceBase := timestamp - b.baseTimestamp

	size := 1 + varintSize(sinceBase) + varintSize(int64(delta)) + bytesSize(r.Key) + bytesSize(r.Value) +
		varintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		size += varintSize(int64(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	p := binary.AppendVarint(b.records, int64(size))
	p = append(p, 0)
	p = binary.AppendVarint(p, sinceBase)
	p = binary.AppendVarint(p, int64(delta))
	p = appendBytes(p, r.Key)
	p = appendBytes(p, r.Value)
	p = binary.AppendVarint(p, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		p = binary.AppendVarint(p, int64(len(h.Key)))
		p = append(p, h.Key...)
		p = appendBytes(p, h.Value)
	}
	b.records = p
}

// Build appends the batch to dst, with base offset 0 and leader epoch 0 to be set by the log, and leaves the builder as
// it is. It fails for an empty builder, ErrTooLarge above MaxSize.
func (b *Builder) Build(dst []byte, codec log.Compression, p Producer, transactional bool) ([]byte, error) {
	if b.count == 0 {
		return dst, fmt.Errorf("build batch: no records")
	}
	h := header{lastOffsetDelta: b.lastDelta, producer: p}
	if transactional {
		h.attributes |= bitTransactional
	}
	return b.build(dst, codec, h)
}

// ResetFor empties the builder to make the batch that takes the place of old in a compacted log: AppendAt what stays,
// then Rebuild. horizon, in milliseconds, is when tombstones in it may go; 0 keeps what old says. old is not kept.
func (b *Builder) ResetFor(old View, horizon int64) {
	b.Reset()
	if old.HasDeleteHorizon() {
		horizon = old.BaseTimestamp()
	}
	b.old = header{
		baseOffset: old.BaseOffset(), leaderEpoch: old.LeaderEpoch(), attributes: old.Attributes(),
		lastOffsetDelta: old.LastOffsetDelta(), baseTimestamp: old.BaseTimestamp(), maxTimestamp: old.MaxTimestamp(),
		producer: old.Producer(),
	}
	if horizon != 0 {
		b.old.attributes |= bitDeleteHorizon
		b.old.baseTimestamp, b.baseTimestamp, b.fixedBase = horizon, horizon, true
	}
}

// Rebuild appends the batch begun with ResetFor. It has the old one's offsets, epoch, producer, flags and codec, and
// the records of the builder, perhaps none: then it only remembers the producer's last sequence number.
func (b *Builder) Rebuild(dst []byte) ([]byte, error) {
	h := b.old
	codec := log.Compression(h.attributes & codecMask)
	h.attributes &^= codecMask
	if b.count == 0 {
		codec = log.CompressionNone
		b.baseTimestamp, b.maxTimestamp = h.baseTimestamp, h.maxTimestamp
	}
	if b.count > 0 && b.lastDelta > h.lastOffsetDelta {
		return dst, fmt.Errorf("rebuild batch: offset delta %d is past the last, %d", b.lastDelta, h.lastOffsetDelta)
	}
	return b.build(dst, codec, h)
}

func (b *Builder) build(dst []byte, codec log.Compression, h header) ([]byte, error) {
	from := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst, err := compress(dst, b.records, codec)
	if err != nil {
		return dst[:from], fmt.Errorf("compress batch with %v: %w", codec, err)
	}
	if len(dst)-from > MaxSize {
		return dst[:from], fmt.Errorf("%w: %d bytes", ErrTooLarge, len(dst)-from)
	}
	h.attributes |= int16(codec)
	h.baseTimestamp, h.maxTimestamp, h.count = b.baseTimestamp, b.maxTimestamp, b.count
	seal(dst[from:], h)
	return dst, nil
}

func appendBytes(p, b []byte) []byte {
	if b == nil {
		return append(p, 1) // varint of -1
	}
	return append(binary.AppendVarint(p, int64(len(b))), b...)
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// varintSize is the size of a zigzag varint.
func varintSize(v int64) int {
	return (bits.Len64(uint64(v<<1)^uint64(v>>63)|1) + 6) / 7
}
