package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/trunkline/trunkline/log"
)

const (
	// DefaultMaxDecompressed is the limit for the records of one batch, in bytes.
	DefaultMaxDecompressed = 256 << 20
	// keepBytes is how much of the memory of large batches a decoder keeps for the next.
	keepBytes = 16 << 20
	// maxNames is how many different header keys a decoder remembers.
	maxNames = 256

	minRecord = 7 // seven varints and bytes that no record lacks
	minHeader = 2
)

// Decoder reads the records of batches into memory that it uses again. It belongs to one goroutine. The zero value is
// ready.
type Decoder struct {
	MaxDecompressed int // bytes of records in one batch; 0 means DefaultMaxDecompressed

	arena   []byte // decompressed records; what is below its length is in use
	used    int    // bytes decompressed since Reset
	headers []log.Header
	names   map[string]string
}

// Reset gives up what Decode returned; that memory is used again.
func (d *Decoder) Reset() {
	switch {
	case d.used > keepBytes:
		d.arena = nil
	case d.used > cap(d.arena):
		d.arena = make([]byte, 0, d.used+d.used/4)
	}
	d.arena, d.used = d.arena[:0], 0
	if cap(d.headers) > keepBytes/64 {
		d.headers = nil
	}
	clear(d.headers)
	d.headers = d.headers[:0]
}

// Decode appends the records of a batch to dst. They point into v, if it is not compressed, and else into memory of the
// decoder, until Reset. A control batch yields its marker as a record; callers look at IsControl first. The checksum is
// not compared; see View.Verify.
//
// The error is ErrCorrupt or ErrTooLarge, and dst is as it was. Whatever the bytes say, memory for a batch stays
// within MaxDecompressed and what as many bytes of the smallest possible records and headers fill, which is 20 times as
// much.
func (d *Decoder) Decode(dst []log.Record, v View) ([]log.Record, error) {
	if err := CheckHeader(v); err != nil {
		return dst, err
	}
	body, err := d.body(v)
	if err != nil {
		return dst, err
	}
	it := iterator{
		p: body, left: v.Count(), last: -1, max: v.LastOffsetDelta(), decoder: d,
		baseOffset: v.BaseOffset(), baseTimestamp: v.BaseTimestamp(),
	}
	if v.LogAppendTime() {
		it.appendTime, it.baseTimestamp = true, v.MaxTimestamp()
	}
	if int(it.left) > len(body)/minRecord {
		return dst, fmt.Errorf("%w: %d records in %d bytes", ErrCorrupt, it.left, len(body))
	}
	from := len(dst)
	dst = slices.Grow(dst, int(it.left))[:from+int(it.left)]
	for i := from; i < len(dst); i++ {
		if !it.next(&dst[i]) {
			return dst[:from], fmt.Errorf("%w: record %d: %w", ErrCorrupt, i-from, it.problem())
		}
	}
	if len(it.p) > 0 {
		return dst[:from], fmt.Errorf("%w: %d bytes after the last record", ErrCorrupt, len(it.p))
	}
	return dst, nil
}

// body returns the decompressed records.
func (d *Decoder) body(v View) ([]byte, error) {
	src := v[HeaderSize:]
	if v.Codec() == log.CompressionNone || len(src) == 0 {
		return src, nil
	}
	limit := d.MaxDecompressed
	if limit <= 0 {
		limit = DefaultMaxDecompressed
	}
	free := d.arena[len(d.arena):]
	out, err := decompress(free, src, v.Codec(), limit)
	if errors.Is(err, ErrTooLarge) {
		return nil, fmt.Errorf("%w: more than %d bytes of records", ErrTooLarge, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress %v: %w", ErrCorrupt, v.Codec(), err)
	}
	d.used += len(out)
	if len(out) <= cap(free) && unsafe.SliceData(out) == unsafe.SliceData(free) {
		d.arena = d.arena[:len(d.arena)+len(out)]
	} else { // it did not fit and has memory of its own; earlier records keep the old arena alive
		d.arena = out
	}
	return out[:len(out):len(out)], nil
}

// name returns a header key as a string of its own, and the same one for the same key.
func (d *Decoder) name(b []byte) string {
	if d == nil {
		return string(b)
	}
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if d.names == nil || len(d.names) >= maxNames {
		d.names = map[string]string{}
	}
	s := string(b)
	d.names[s] = s
	return s
}

// iterator walks over encoded records.
type iterator struct {
	p             []byte // what is left
	left          int32
	last, max     int32 // offset deltas: of the record before, and allowed
	baseOffset    int64
	baseTimestamp int64
	appendTime    bool
	decoder       *Decoder // where headers go; may be nil
	failed        string
}

func (it *iterator) problem() error {
	if it.failed == "" {
		return errors.New("no record")
	}
	return errors.New(it.failed)
}

func (it *iterator) fail(what string) bool {
	it.failed = what
	return false
}

// next fills r with the next record. false: there is none, or problem says why.
func (it *iterator) next(r *log.Record) bool {
	if it.left <= 0 {
		return false
	}
	it.left--
	size, ok := it.varint()
	if !ok || size < minRecord-1 || size > int64(len(it.p)) {
		return it.fail("its size does not fit")
	}
	rest := it.p[size:]
	it.p = it.p[1:size:size]
	sinceBase, ok1 := it.varint()
	delta, ok2 := it.varint()
	if !ok1 || !ok2 || delta <= int64(it.last) || delta > int64(it.max) {
		return it.fail("its offset is out of order")
	}
	it.last = int32(delta)
	r.Offset = it.baseOffset + delta
	r.Timestamp = it.baseTimestamp
	if !it.appendTime {
		r.Timestamp += sinceBase
	}
	if r.Key, ok = it.bytes(); !ok {
		return it.fail("its key does not fit")
	}
	if r.Value, ok = it.bytes(); !ok {
		return it.fail("its value does not fit")
	}
	if r.Headers, ok = it.headers(); !ok {
		return it.fail("its headers do not fit")
	}
	if len(it.p) > 0 {
		return it.fail("bytes are left behind its headers")
	}
	it.p = rest
	return true
}

func (it *iterator) headers() ([]log.Header, bool) {
	n, ok := it.varint()
	if !ok || n < 0 || n > int64(len(it.p)/minHeader) {
		return nil, false
	}
	if n == 0 {
		return nil, true
	}
	var list []log.Header
	if it.decoder != nil {
		list = it.decoder.headers
	}
	from := len(list)
	for range n {
		key, ok := it.bytes()
		if !ok || key == nil {
			return nil, false
		}
		value, ok := it.bytes()
		if !ok {
			return nil, false
		}
		list = append(list, log.Header{Key: it.decoder.name(key), Value: value})
	}
	if it.decoder != nil {
		it.decoder.headers = list
	}
	return list[from:len(list):len(list)], true
}

// bytes reads a length and that many bytes; nil for the length -1.
func (it *iterator) bytes() ([]byte, bool) {
	n, ok := it.varint()
	if !ok || n < -1 || n > int64(len(it.p)) {
		return nil, false
	}
	if n == -1 {
		return nil, true
	}
	b := it.p[:n:n]
	it.p = it.p[n:]
	return b, true
}

func (it *iterator) varint() (int64, bool) {
	if len(it.p) > 0 && it.p[0] < 0x80 { // most are one byte
		u := it.p[0]
		it.p = it.p[1:]
		return int64(u>>1) ^ -int64(u&1), true
	}
	v, n := binary.Varint(it.p)
	if n <= 0 {
		return 0, false
	}
	it.p = it.p[n:]
	return v, true
}
