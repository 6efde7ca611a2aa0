package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

const (
	// scanWindow is how much is read at once when a whole file is read.
	scanWindow = 1 << 20
	// walkWindow is how much is read at once when headers are looked at; it covers the interval of the index.
	walkWindow = 8 << 10
)

// scanner reads batches of a file at given positions. It belongs to one goroutine. What it returns is valid until its
// next call. Errors about the content satisfy isBad; others are of the disk.
type scanner struct {
	file     vfs.File
	maxBatch int
	window   int
	buf      []byte
	at       int64 // position of buf[0]
}

func newScanner(f vfs.File, maxBatch int) *scanner {
	return &scanner{file: f, maxBatch: maxBatch, window: walkWindow}
}

// isBad reports whether the error is about the bytes, not about reading them.
func isBad(err error) bool {
	return errors.Is(err, batch.ErrCorrupt) || errors.Is(err, batch.ErrShort) || errors.Is(err, batch.ErrMagic) ||
		errors.Is(err, batch.ErrTooLarge)
}

// bytes returns n bytes from a position; the file must hold them before end.
func (sc *scanner) bytes(at int64, n int, end int64) ([]byte, error) {
	if at >= sc.at && at+int64(n) <= sc.at+int64(len(sc.buf)) {
		from := int(at - sc.at)
		return sc.buf[from : from+n], nil
	}
	want := int(min(int64(max(n, sc.window)), end-at))
	if cap(sc.buf) < want {
		sc.buf = make([]byte, want)
	}
	sc.buf, sc.at = sc.buf[:want], at
	got, err := sc.file.ReadAt(sc.buf, at)
	sc.buf = sc.buf[:got]
	if got >= n {
		return sc.buf[:n], nil
	}
	if err == nil || err == io.EOF {
		return nil, fmt.Errorf("%w: the file ends at byte %d", batch.ErrShort, at+int64(got))
	}
	return nil, err
}

// header returns a batch's header, checked but for the checksum; the batch must end at or before end.
func (sc *scanner) header(at, end int64) (batch.View, error) {
	if end-at < batch.HeaderSize {
		return nil, fmt.Errorf("%w: %d bytes are left for a header", batch.ErrShort, end-at)
	}
	b, err := sc.bytes(at, batch.HeaderSize, end)
	if err != nil {
		return nil, err
	}
	if err := batch.CheckHeader(b); err != nil {
		return nil, err
	}
	v := batch.View(b)
	if v.Length() > end-at {
		return nil, fmt.Errorf("%w: %d bytes are left for %d", batch.ErrShort, end-at, v.Length())
	}
	if v.Length() > int64(sc.maxBatch) {
		return nil, fmt.Errorf("%w: %d bytes", batch.ErrTooLarge, v.Length())
	}
	return v, nil
}

// batch returns a whole batch whose checksum is right.
func (sc *scanner) batch(at, end int64) (batch.View, error) {
	v, err := sc.header(at, end)
	if err != nil {
		return nil, err
	}
	b, err := sc.bytes(at, int(v.Length()), end)
	if err != nil {
		return nil, err
	}
	return batch.View(b), batch.View(b).Verify()
}

// between reports whether the offsets of a batch can stand between two marks.
func between(v batch.View, from, end Mark) error {
	if v.BaseOffset() < from.Offset || v.NextOffset() > end.Offset {
		return fmt.Errorf("%w: offsets %d to %d are not between %d and %d", batch.ErrCorrupt,
			v.BaseOffset(), v.LastOffset(), from.Offset, end.Offset-1)
	}
	return nil
}

// next returns the batch header at a mark, and the mark behind the batch. The checksum does not cover the base offset,
// so a batch that leaves offsets out, as compaction makes them, is believed only if the one behind it fits.
func (sc *scanner) next(at, end Mark) (batch.View, Mark, error) {
	v, err := sc.header(at.Position, end.Position)
	if err != nil {
		return nil, at, err
	}
	if err := between(v, at, end); err != nil {
		return v, at, err
	}
	after := Mark{Position: at.Position + v.Length(), Offset: v.NextOffset()}
	if v.BaseOffset() == at.Offset || after.Position >= end.Position {
		return v, after, nil
	}
	v = slices.Clone(v)
	behind, err := sc.header(after.Position, end.Position)
	switch {
	case err == nil && behind.BaseOffset() < after.Offset:
		return v, at, errOverlap
	case err != nil && !isBad(err):
		return nil, at, err
	}
	return v, after, nil
}

var errOverlap = fmt.Errorf("%w: its offsets overlap those of the next batch", batch.ErrCorrupt)

// resync returns where the first good batch behind a damaged one begins, or end. It believes the damaged batch's
// length if a good batch follows there with the offset that should follow; else it tries every byte. The error is of
// the disk.
func (sc *scanner) resync(bad, end Mark) (Mark, error) {
	if v, after, err := sc.next(bad, end); err == nil {
		if after == end {
			return end, nil
		}
		next := v.NextOffset()
		v, err = sc.batch(after.Position, end.Position)
		if err == nil && v.BaseOffset() == next && v.NextOffset() <= end.Offset {
			return after, nil
		}
		if err != nil && !isBad(err) {
			return end, err
		}
	} else if !isBad(err) {
		return end, err
	}
	return sc.search(Mark{Position: bad.Position + 1, Offset: bad.Offset}, end)
}

// search finds the first good batch at or behind a mark.
func (sc *scanner) search(from, end Mark) (Mark, error) {
	const magicAt, magic, stretch = 16, 2, 4 << 10
	sc.window = scanWindow
	for p := from.Position; end.Position-p >= batch.HeaderSize; {
		w, err := sc.bytes(p, int(min(stretch, end.Position-p)), end.Position)
		if err != nil {
			if isBad(err) {
				return end, nil
			}
			return end, err
		}
		i := bytes.IndexByte(w[magicAt:len(w)-batch.HeaderSize+magicAt+1], magic)
		if i < 0 {
			p += int64(len(w) - batch.HeaderSize + 1)
			continue
		}
		p += int64(i)
		if v, _, err := sc.next(Mark{Position: p, Offset: from.Offset}, end); err == nil {
			start := Mark{Position: p, Offset: v.BaseOffset()}
			if _, err := sc.batch(p, end.Position); err == nil {
				return start, nil
			} else if !isBad(err) {
				return end, err
			}
		} else if !isBad(err) {
			return end, err
		}
		p++
	}
	return end, nil
}
