package broker

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/trunkline/trunkline/log/disk"
)

// stored is a run of batches to be written into a fetch response.
type stored struct {
	placeholder []byte
	bytes       []byte
	place       disk.Place // where they stand, if they are not in bytes
}

func (s stored) size() int { return len(s.bytes) + int(s.place.Length) }

// placeholderSize is the length of what stands for stored bytes while a response is encoded.
const placeholderSize = 16

// newPlaceholder returns bytes that stand nowhere else in a response.
func newPlaceholder() []byte {
	b := make([]byte, placeholderSize)
	_, _ = rand.Read(b) // never fails
	return b
}

const (
	writeChunk = 1 << 20  // what has to leave within the timeout
	keepOut    = 64 << 10 // the largest response buffer that is kept
)

// write finishes and writes answers until reading has ended and all are written, or the peer takes no more.
func (c *conn) write() {
	var buf []byte
	broken := false
	for p := range c.pending {
		if !broken { // else the queue is emptied, so that the reader does not block on it
			var err error
			buf, err = c.finish(buf, p)
			if err != nil || p.last {
				broken = true
				c.net.Close()
			}
		}
		c.s.budget.give(p.cost)
		if cap(buf) > keepOut {
			buf = nil
		}
	}
}

// finish gets the response and writes it.
func (c *conn) finish(buf []byte, p pending) ([]byte, error) {
	var out output
	switch {
	case p.later != nil:
		out = p.later()
	case p.raw == nil:
		out.response = p.response
	}
	if p.silent || out.response == nil && p.raw == nil {
		return buf, nil
	}
	return c.send(buf, p, out)
}

// send encodes and writes one response.
func (c *conn) send(buf []byte, p pending, out output) ([]byte, error) {
	buf = append(buf[:0], 0, 0, 0, 0)
	if p.raw != nil {
		buf = append(buf, p.raw...)
	} else {
		buf = binary.BigEndian.AppendUint32(buf, uint32(p.correlation))
		if p.flexible {
			buf = append(buf, 0)
		}
		buf = out.response.AppendTo(buf)
	}
	if len(out.records) == 0 {
		binary.BigEndian.PutUint32(buf, uint32(len(buf)-4))
		return buf, c.writeAll(buf)
	}
	parts, err := splice(buf, out.records, out.response.IsFlexible())
	if err != nil {
		return buf, err
	}
	var gathered net.Buffers // of what is in memory, to be written in one call
	for i, head := range parts {
		gathered = append(gathered, head)
		if i == len(out.records) {
			break
		}
		if out.records[i].place.Length == 0 {
			gathered = append(gathered, out.records[i].bytes)
			continue
		}
		if err := c.writeGathered(&gathered); err != nil {
			return buf, err
		}
		if err := c.writeFile(out.records[i]); err != nil {
			return buf, err
		}
	}
	return buf, c.writeGathered(&gathered)
}

func (c *conn) writeGathered(list *net.Buffers) error {
	if err := c.net.SetWriteDeadline(time.Now().Add(c.s.o.ReceiveTimeout)); err != nil {
		return err
	}
	_, err := list.WriteTo(c.net)
	*list = nil
	return err
}

// writeFile writes stored bytes from a file. To plain TCP the kernel moves them. A file that retention took meanwhile ends
// the connection; the client comes back and hears of its new offset.
func (c *conn) writeFile(r stored) (err error) {
	file, err := os.Open(r.place.Path)
	if err != nil {
		return fmt.Errorf("send batches: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(r.place.Position, io.SeekStart); err != nil {
		return fmt.Errorf("send batches: %w", err)
	}
	for left := r.place.Length; left > 0; {
		if err := c.net.SetWriteDeadline(time.Now().Add(c.s.o.ReceiveTimeout)); err != nil {
			return err
		}
		n := min(left, writeChunk)
		if _, err := io.CopyN(c.net, file, n); err != nil {
			return fmt.Errorf("send batches: %w", err)
		}
		left -= n
	}
	return nil
}

// splice cuts an encoded fetch response at its placeholders, which stand where stored bytes belong, and puts the right
// lengths in front of them. It returns what stands before, between and behind the stored bytes.
func splice(buf []byte, records []stored, flexible bool) ([][]byte, error) {
	parts := make([][]byte, 0, len(records)+1)
	total, from := -4, 0
	for _, r := range records {
		at := bytes.Index(buf[from:], r.placeholder)
		prefix := 4
		if flexible {
			prefix = 1
		}
		if at < prefix {
			return nil, fmt.Errorf("encode fetch response: no place for %d bytes", r.size())
		}
		at += from
		head := append([]byte(nil), buf[from:at-prefix]...)
		if flexible {
			head = kbin.AppendUvarint(head, uint32(r.size())+1)
		} else {
			head = binary.BigEndian.AppendUint32(head, uint32(r.size()))
		}
		parts = append(parts, head)
		total += len(head) + r.size()
		from = at + placeholderSize
	}
	parts = append(parts, buf[from:])
	total += len(buf) - from
	binary.BigEndian.PutUint32(parts[0], uint32(total))
	return parts, nil
}

// writeAll writes b in pieces, each of which has to leave within the timeout: a peer may be slow, but not stand still.
func (c *conn) writeAll(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), writeChunk)
		if err := c.net.SetWriteDeadline(time.Now().Add(c.s.o.ReceiveTimeout)); err != nil {
			return err
		}
		if _, err := c.net.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
