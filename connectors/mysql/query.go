package mysql

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	wire "github.com/go-mysql-org/go-mysql/mysql"
)

// reader is a connection that reads tables: rows come as the text of their values, without a copy.
type reader struct {
	conn *client.Conn
	in   *bufio.Reader
	buf  []byte
	row  [][]byte
}

func newReader(conn *client.Conn) *reader {
	conn.SetDeadline(time.Time{})
	return &reader{conn: conn, in: bufio.NewReaderSize(conn.Conn.Conn, chunkBytes)}
}

// each runs a query and calls f for each row. NULL is nil. The row is valid during the call.
func (r *reader) each(ctx context.Context, query string, f func(row [][]byte) error) error {
	stop := context.AfterFunc(ctx, func() { r.conn.Conn.Conn.Close() })
	defer stop()
	r.conn.ResetSequence()
	packet := append([]byte{0, 0, 0, 0, wire.COM_QUERY}, query...)
	if err := r.conn.WritePacket(packet); err != nil {
		return plain(err)
	}
	head, err := r.packet()
	if err != nil {
		return err
	}
	c := cursor{b: head}
	columns := int(c.packed())
	for range columns + 1 { // the descriptions and what ends them
		if _, err := r.packet(); err != nil {
			return err
		}
	}
	if cap(r.row) < columns {
		r.row = make([][]byte, columns)
	}
	r.row = r.row[:columns]
	for {
		b, err := r.packet()
		if err != nil {
			return err
		}
		if b[0] == wire.EOF_HEADER && len(b) < 9 {
			return nil
		}
		c := cursor{b: b}
		for i := range r.row {
			if len(c.b) > 0 && c.b[0] == 0xfb {
				c.b, r.row[i] = c.b[1:], nil
				continue
			}
			r.row[i] = c.take(int(c.packed()))
		}
		if c.bad {
			return fmt.Errorf("read row: malformed packet")
		}
		if err := f(r.row); err != nil {
			return err
		}
	}
}

// one runs a query that has one row.
func (r *reader) one(ctx context.Context, query string) (list []string, err error) {
	err = r.each(ctx, query, func(row [][]byte) error {
		list = list[:0]
		for _, v := range row {
			list = append(list, string(v))
		}
		return nil
	})
	return list, err
}

// packet reads the next packet, whose bytes are valid until the next one.
func (r *reader) packet() ([]byte, error) {
	r.buf = r.buf[:0]
	if cap(r.buf) > maxKeptArena {
		r.buf = nil
	}
	for {
		var head [4]byte
		if _, err := io.ReadFull(r.in, head[:]); err != nil {
			return nil, plain(err)
		}
		n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		at := len(r.buf)
		if cap(r.buf)-at < n {
			r.buf = append(make([]byte, 0, max(2*cap(r.buf), at+n)), r.buf...)
		}
		r.buf = r.buf[:at+n]
		if _, err := io.ReadFull(r.in, r.buf[at:]); err != nil {
			return nil, plain(err)
		}
		if n < maxPacket {
			break
		}
	}
	if len(r.buf) == 0 {
		return nil, fmt.Errorf("read row: empty packet")
	}
	if r.buf[0] == wire.ERR_HEADER {
		return nil, r.conn.HandleErrorPacket(append([]byte(nil), r.buf...))
	}
	return r.buf, nil
}

func (r *reader) close() { r.conn.Close() }
