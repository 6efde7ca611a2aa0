package postgres

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const spoolBuffer = 256 << 10

// spool is a file of messages that wait: those of a transaction that the server streams before its end, or those of a
// table that is being read. A record is
//
//	length:4 kind:1 xid:4 lsn:8 clock:8 message
//
// with the length counting what follows it. Files do not outlive the stream: after a crash the server sends all of it again.
type spool struct {
	file    *os.File
	w       *bufio.Writer
	size    int64
	aborted map[uint32]bool // subtransactions that were rolled back
}

// record is one message of a spool, valid until the next.
type record struct {
	kind  byte
	xid   uint32
	at    lsn
	clock uint64
	body  []byte
}

const (
	recordHeader = 1 + 4 + 8 + 8
	maxRecord    = 1 << 30 // bytes; PostgreSQL itself sends no larger message
)

func newSpool(dir, name string) (*spool, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create spool file: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, name+".spool"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create spool file: %w", err)
	}
	return &spool{file: file, w: bufio.NewWriterSize(file, spoolBuffer), aborted: map[uint32]bool{}}, nil
}

func (f *spool) write(r record) error {
	var head [4 + recordHeader]byte
	binary.BigEndian.PutUint32(head[:], uint32(recordHeader+len(r.body)))
	head[4] = r.kind
	binary.BigEndian.PutUint32(head[5:], r.xid)
	binary.BigEndian.PutUint64(head[9:], uint64(r.at))
	binary.BigEndian.PutUint64(head[17:], r.clock)
	_, err := f.w.Write(head[:])
	if err == nil {
		_, err = f.w.Write(r.body)
	}
	if err != nil {
		return fmt.Errorf("write spool file: %w", err)
	}
	f.size += int64(len(head) + len(r.body))
	return nil
}

// rewind ends writing and returns a reader from the start.
func (f *spool) rewind() (*bufio.Reader, error) {
	if err := f.w.Flush(); err != nil {
		return nil, fmt.Errorf("write spool file: %w", err)
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read spool file: %w", err)
	}
	return bufio.NewReaderSize(f.file, spoolBuffer), nil
}

// remove gives the file back.
func (f *spool) remove() {
	f.file.Close()
	os.Remove(f.file.Name())
}

// readRecord reads the next record into buf, which it returns grown. The error is io.EOF at the end.
func readRecord(r *bufio.Reader, buf []byte) (record, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return record{}, buf, io.EOF
		}
		return record{}, buf, fmt.Errorf("read spool file: %w", err)
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < recordHeader || size > maxRecord {
		return record{}, buf, errors.New("read spool file: a record has an impossible length")
	}
	b := buf[:0]
	for len(b) < size { // a length that is wrong costs no more memory than there is file
		n := len(b)
		step := min(size-n, max(cap(b)-n, n, 64<<10))
		b = slices.Grow(b, step)[:n+step]
		if _, err := io.ReadFull(r, b[n:]); err != nil {
			return record{}, b, fmt.Errorf("read spool file: %w", err)
		}
	}
	return record{kind: b[0], xid: binary.BigEndian.Uint32(b[1:]), at: lsn(binary.BigEndian.Uint64(b[5:])),
		clock: binary.BigEndian.Uint64(b[13:]), body: b[recordHeader:]}, b, nil
}

// removeSpools removes what an earlier process left.
func removeSpools(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.spool"))
	for _, file := range files {
		os.Remove(file)
	}
}

// replay is a streamed transaction that has committed and whose changes are handed over.
type replay struct {
	spool *spool
	in    *bufio.Reader
	buf   []byte
}

// streamStart begins a part of a streamed transaction.
func (s *stream) streamStart(c *cursor) error {
	xid := c.u32()
	first := c.u8() != 0
	if c.bad {
		return malformed(msgStreamStart)
	}
	s.streaming = xid
	if old := s.spools[xid]; old != nil {
		if !first {
			return nil
		}
		old.remove()
	}
	f, err := newSpool(s.dir, fmt.Sprintf("tx-%d", xid))
	if err != nil {
		return err
	}
	s.spools[xid] = f
	return nil
}

// streamPart keeps a message of a streamed transaction. Descriptions of tables are kept under transaction zero: they hold
// even when the subtransaction in which the server happened to send them is rolled back.
func (s *stream) streamPart(kind byte, c *cursor, at lsn) error {
	xid := c.u32()
	if c.bad {
		return malformed(kind)
	}
	switch kind {
	case msgRelation:
		xid = 0
	case msgType:
		return nil
	case msgInsert, msgUpdate, msgDelete:
		if len(c.b) < 4 || s.tables[binary.BigEndian.Uint32(c.b)] == nil {
			return nil
		}
	}
	return s.spools[s.streaming].write(record{kind: kind, xid: xid, at: at, body: c.b})
}

func (s *stream) streamAbort(c *cursor) error {
	xid, sub := c.u32(), c.u32()
	if c.bad {
		return malformed(msgStreamAbort)
	}
	f := s.spools[xid]
	switch {
	case f == nil:
	case xid == sub:
		f.remove()
		delete(s.spools, xid)
	default:
		f.aborted[sub] = true
	}
	return nil
}

func (s *stream) streamCommit(c *cursor) error {
	xid := c.u32()
	c.take(9)
	end, clock := lsn(c.u64()), c.u64()
	if c.bad {
		return malformed(msgStreamCommit)
	}
	f := s.spools[xid]
	if f == nil {
		return fmt.Errorf("read replication stream: commit of transaction %d, which never began", xid)
	}
	delete(s.spools, xid)
	in, err := f.rewind()
	if err != nil {
		f.remove()
		return err
	}
	s.begin(transaction{xid: xid, time: pgTime(clock), end: end})
	s.replay = &replay{spool: f, in: in}
	return nil
}

// replayMore hands over the next changes of a streamed transaction that has committed.
func (s *stream) replayMore(ctx context.Context) (bool, error) {
	p := s.replay
	for {
		var r record
		var err error
		r, p.buf, err = readRecord(p.in, p.buf)
		if errors.Is(err, io.EOF) {
			p.spool.remove()
			s.replay = nil
			return s.commit(), nil
		}
		if err != nil {
			return false, err
		}
		if p.spool.aborted[r.xid] {
			continue
		}
		if full, err := s.change(ctx, r.kind, r.body, r.at); full || err != nil {
			return full, err
		}
	}
}
