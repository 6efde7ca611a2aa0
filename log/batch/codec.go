package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/trunkline/trunkline/log"
)

// idleCodecs is how many encoders, and decoders, of each kind wait for their next use. They are some hundred kilobytes
// to a few megabytes each and costly to make, so they are not left to the garbage collector as in a sync.Pool.
const idleCodecs = 8

// pool keeps idle values; when all are in use it makes more.
type pool[T any] struct {
	idle  chan T
	fresh func() T
}

func newPool[T any](fresh func() T) pool[T] { return pool[T]{make(chan T, idleCodecs), fresh} }

func (p pool[T]) get() T {
	select {
	case v := <-p.idle:
		return v
	default:
		return p.fresh()
	}
}

func (p pool[T]) put(v T) {
	select {
	case p.idle <- v:
	default:
	}
}

// window is how far back zstd looks for repetition. Rows repeat what is near: on them a larger window is slower by a
// tenth and saves nothing.
const window = 64 << 10

// Speed comes first: rows are repetitive, and every level above the fastest costs more time than it saves in bytes.
var (
	gzipWriters = newPool(func() *gzip.Writer {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only for an unknown level
		return w
	})
	gzipReaders = newPool(func() *gzip.Reader { return new(gzip.Reader) })
	lz4Writers  = newPool(func() *lz4.Writer {
		w := lz4.NewWriter(nil)
		_ = w.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block64Kb)) // fails only while in use
		return w
	})
	lz4Readers  = newPool(func() *lz4.Reader { return lz4.NewReader(nil) })
	zstdWriters = newPool(func() *zstd.Encoder {
		// The options are constants that are known to be valid. The batch has a checksum of its own.
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(window))
		return w
	})
	zstdReaders = newPool(func() *zstd.Decoder {
		r, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(MaxSize))
		return r
	})
)

// compress appends src to dst in the framing that Kafka uses for the codec: a gzip stream, xerial blocks of snappy, an
// lz4 frame, a zstd frame.
func compress(dst, src []byte, c log.Compression) ([]byte, error) {
	switch c {
	case log.CompressionNone:
		return append(dst, src...), nil
	case log.CompressionGzip:
		w := gzipWriters.get()
		defer gzipWriters.put(w)
		out := appender{dst}
		w.Reset(&out)
		return out.finish(w, src)
	case log.CompressionSnappy:
		return appendXerial(dst, src), nil
	case log.CompressionLZ4:
		w := lz4Writers.get()
		defer lz4Writers.put(w)
		out := appender{dst}
		w.Reset(&out)
		return out.finish(w, src)
	case log.CompressionZstd:
		w := zstdWriters.get()
		defer zstdWriters.put(w)
		return w.EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("unknown %v", c)
}

// appender is an io.Writer that appends.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

func (a *appender) finish(w io.WriteCloser, src []byte) ([]byte, error) {
	_, err := w.Write(src)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	return a.b, err
}

// Xerial's framing, which is what Kafka's Java client writes for snappy:
//
//	 0 magic   82 53 4e 41 50 50 59 00
//	 8 version int32 1
//	12 compatible version int32 1
//	16 blocks: int32 size, snappy block
const (
	xerialMagic = "\x82SNAPPY\x00"
	xerialSize  = 16
	xerialBlock = 64 << 10 // snappy finds no repetition that is farther away
)

func appendXerial(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		at, most := len(dst), s2.MaxEncodedLen(n)
		dst = append(dst, make([]byte, 4+most)...)
		size := len(s2.EncodeSnappy(dst[at+4:], src[:n]))
		binary.BigEndian.PutUint32(dst[at:], uint32(size))
		dst, src = dst[:at+4+size], src[n:]
	}
	return dst
}

// decompress appends what src holds to dst, at most limit bytes; ErrTooLarge above it. dst may be returned grown or
// moved even with an error, in which case what is behind its length means nothing.
func decompress(dst, src []byte, c log.Compression, limit int) ([]byte, error) {
	switch c {
	case log.CompressionGzip:
		r := gzipReaders.get()
		defer gzipReaders.put(r)
		if err := r.Reset(bytes.NewReader(src)); err != nil {
			return dst, err
		}
		return readAll(dst, r, limit)
	case log.CompressionSnappy:
		if len(src) >= xerialSize && string(src[:len(xerialMagic)]) == xerialMagic {
			return decodeXerial(dst, src[xerialSize:], limit)
		}
		return decodeSnappy(dst, src, limit)
	case log.CompressionLZ4:
		r := lz4Readers.get()
		defer lz4Readers.put(r)
		r.Reset(bytes.NewReader(src))
		return readAll(dst, r, limit)
	case log.CompressionZstd:
		return decodeZstd(dst, src, limit)
	}
	return dst, fmt.Errorf("unknown %v", c)
}

func readAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	from := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-from > limit {
			return dst, ErrTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

func decodeXerial(dst, src []byte, limit int) ([]byte, error) {
	for len(src) > 0 {
		if len(src) < 4 {
			return dst, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return dst, io.ErrUnexpectedEOF
		}
		from := len(dst)
		var err error
		if dst, err = decodeSnappy(dst, src[:n], limit); err != nil {
			return dst, err
		}
		limit -= len(dst) - from
		src = src[n:]
	}
	return dst, nil
}

func decodeSnappy(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	if n > limit {
		return dst, ErrTooLarge
	}
	if n/maxSnappyRatio > len(src) {
		return dst, s2.ErrCorrupt
	}
	from := len(dst)
	dst = grow(dst, n)
	if _, err := s2.Decode(dst[from:from+n], src); err != nil {
		return dst, err
	}
	return dst[:from+n], nil
}

// maxSnappyRatio is more than a snappy block can shrink: a copy of 64 bytes takes 3.
const maxSnappyRatio = 64

// decodeZstd gives the decoder no more room than the frame asks for or, where it does not say, as much as is likely,
// and more until the limit is reached.
func decodeZstd(dst, src []byte, limit int) ([]byte, error) {
	var h zstd.Header
	room := max(len(src)*8, cap(dst)-len(dst), 16<<10)
	if err := h.Decode(src); err == nil && h.HasFCS {
		if h.FrameContentSize > uint64(limit) {
			return dst, ErrTooLarge
		}
		room = int(h.FrameContentSize)
	}
	r := zstdReaders.get()
	defer zstdReaders.put(r)
	for {
		room = min(room, limit)
		dst = grow(dst, room)
		out, err := r.DecodeAll(src, dst[:len(dst):len(dst)+room])
		if err == nil {
			return dst[:len(out)], nil // with the limit on its capacity dst never moves
		}
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return dst, err
		}
		if room == limit {
			return dst, ErrTooLarge
		}
		room = max(4*room, 16<<10) // a frame may say that it holds nothing and hold something
	}
}

// grow makes room for n bytes behind the length of b.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return append(make([]byte, 0, len(b)+n), b...)
}
