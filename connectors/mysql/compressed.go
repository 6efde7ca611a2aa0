package mysql

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxPayload bounds what one compressed transaction may unfold to: max_allowed_packet's own limit.
const maxPayload = 1 << 30

func unzstd(b []byte, size uint64) ([]byte, error) {
	if size > maxPayload {
		return nil, fmt.Errorf("read binary log: a compressed transaction of %d bytes; the limit is %d", size, maxPayload)
	}
	d, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
	if err != nil {
		return nil, fmt.Errorf("read compressed transaction: %w", err)
	}
	defer d.Close()
	out := bytes.NewBuffer(make([]byte, 0, min(size, 16<<20)))
	if _, err := io.Copy(out, d); err != nil {
		return nil, fmt.Errorf("read compressed transaction: %w", err)
	}
	return out.Bytes(), nil
}

// decompress undoes MariaDB's compression of an event's body:
//
//	1 bit set, 3 bits method (0 zlib), 1 unused, 3 bits: bytes of the length
//	length of the plain data, big-endian
//	zlib stream
func decompress(b []byte) ([]byte, error) {
	c := cursor{b: b}
	head := c.uint(1)
	size := bigEndian(c.take(int(head & 7)))
	if c.bad || head&0x80 == 0 || head>>4&7 != 0 || size > maxPayload {
		return nil, errEvent("compressed")
	}
	z, err := zlib.NewReader(bytes.NewReader(c.b))
	if err != nil {
		return nil, errEvent("compressed")
	}
	out := bytes.NewBuffer(make([]byte, 0, min(size, 16<<20)))
	if n, err := io.Copy(out, io.LimitReader(z, int64(size)+1)); err != nil || uint64(n) != size {
		return nil, errEvent("compressed")
	}
	return out.Bytes(), nil
}
