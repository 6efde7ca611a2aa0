package mysql

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	wire "github.com/go-mysql-org/go-mysql/mysql"
)

const (
	chunkBytes   = 256 << 10 // of events that the reader hands over at once, about
	chunksAhead  = 8         // chunks that the reader may be ahead of the decoder
	maxPacket    = 1<<24 - 1 // a packet of this length goes on in the next one
	keptChunk    = 4 << 20   // a chunk with a larger event is not used again
	writeTimeout = 10 * time.Second
)

// chunk is a run of whole events, each with its header and, if the log has them, its checksum.
type chunk struct {
	buf  []byte
	ends []int // of the events
}

// dump is a connection on which the server sends its binary log. A goroutine reads ahead of the decoder.
type dump struct {
	conn   *client.Conn
	chunks chan *chunk
	free   chan *chunk
	failed chan error // one error at most, after the last chunk

	stop context.CancelFunc
	done sync.WaitGroup
}

// startDump registers as a replica and asks for everything behind a place.
func startDump(ctx context.Context, e *endpoint, o dumpOptions) (*dump, error) {
	conn, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.request(conn); err != nil {
		conn.Close()
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &dump{conn: conn, chunks: make(chan *chunk, chunksAhead), free: make(chan *chunk, chunksAhead+2), failed: make(chan error, 1), stop: cancel}
	d.done.Add(1)
	go func() {
		defer d.done.Done()
		defer close(d.chunks)
		if err := d.receive(run); err != nil && run.Err() == nil {
			d.failed <- err
		}
	}()
	return d, nil
}

// dumpOptions say where to begin.
type dumpOptions struct {
	serverID  uint32
	host      string // what the server lists us as; at most 60 bytes
	maria     bool
	gtid      *gtidSet // nil: by file and position
	at        place
	heartbeat time.Duration
}

// request sends what a replica sends: that it knows checksums, how often to hear from the server, its number, and the
// place to begin at.
func (o *dumpOptions) request(conn *client.Conn) error {
	statements := []string{
		"SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum",
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %d", o.heartbeat.Nanoseconds(), o.heartbeat.Nanoseconds()),
		fmt.Sprintf("SET @slave_uuid = '%s', @replica_uuid = '%[1]s'", replicaUUID(o.serverID)),
	}
	if o.maria {
		statements = append(statements, "SET @mariadb_slave_capability = 4")
		if o.gtid != nil {
			statements = append(statements, "SET @slave_connect_state = '"+o.gtid.String()+"', @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0")
		}
	}
	for _, s := range statements {
		if _, err := conn.Execute(s); err != nil {
			return fmt.Errorf("prepare binary log: %w", settle(plain(err)))
		}
	}
	conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	register := []byte{0, 0, 0, 0, wire.COM_REGISTER_SLAVE}
	register = binary.LittleEndian.AppendUint32(register, o.serverID)
	register = append(append(register, byte(len(o.host))), o.host...)
	register = append(register, 0, 0) // no user, no password
	register = append(register, make([]byte, 2+4+4)...)
	conn.ResetSequence()
	if err := conn.WritePacket(register); err != nil {
		return fmt.Errorf("register as replica: %w", plain(err))
	}
	if _, err := conn.ReadOKPacket(); err != nil {
		return fmt.Errorf("register as replica: %w", settle(plain(err)))
	}
	conn.ResetSequence()
	if err := conn.WritePacket(o.command()); err != nil {
		return fmt.Errorf("ask for binary log: %w", plain(err))
	}
	return nil
}

// command is COM_BINLOG_DUMP, or COM_BINLOG_DUMP_GTID with MySQL's GTIDs.
func (o *dumpOptions) command() []byte {
	b := []byte{0, 0, 0, 0}
	if o.gtid == nil || o.maria {
		at := o.at
		if o.gtid != nil {
			at = place{Pos: 4}
		}
		b = append(b, wire.COM_BINLOG_DUMP)
		b = binary.LittleEndian.AppendUint32(b, uint32(at.Pos))
		b = binary.LittleEndian.AppendUint16(b, 0)
		b = binary.LittleEndian.AppendUint32(b, o.serverID)
		return append(b, at.File...)
	}
	set := o.gtid.encode()
	b = append(b, wire.COM_BINLOG_DUMP_GTID)
	b = binary.LittleEndian.AppendUint16(b, 4) // the position is in the set
	b = binary.LittleEndian.AppendUint32(b, o.serverID)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, 4)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(set)))
	return append(b, set...)
}

// replicaUUID is what MySQL knows replicas by; a second connection with the same one ends the first.
func replicaUUID(serverID uint32) string {
	return fmt.Sprintf("7472756e-6b6c-5000-8000-0000%08x", serverID)
}

// receive reads packets until the connection or the context ends.
func (d *dump) receive(ctx context.Context) error {
	d.conn.SetDeadline(time.Time{})
	in := bufio.NewReaderSize(d.conn.Conn.Conn, chunkBytes)
	for {
		c := d.buffer()
		for len(c.buf) < chunkBytes {
			if err := d.packet(in, c); err != nil {
				return errors.Join(d.send(ctx, c), err)
			}
			if !ready(in) {
				break
			}
		}
		if err := d.send(ctx, c); err != nil {
			return err
		}
	}
}

// ready reports that a whole packet is there, so that reading it does not block.
func ready(in *bufio.Reader) bool {
	if in.Buffered() < 4 {
		return false
	}
	head, err := in.Peek(4)
	return err == nil && in.Buffered() >= 4+int(head[0])+int(head[1])<<8+int(head[2])<<16
}

// packet reads one packet: length:3, sequence:1, then 0 and an event, 255 and an error, or 254 at the end.
func (d *dump) packet(in *bufio.Reader, c *chunk) error {
	start := len(c.buf)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return plain(err)
		}
		n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		at := len(c.buf)
		if cap(c.buf)-at < n {
			c.buf = append(make([]byte, 0, max(2*cap(c.buf), at+n)), c.buf...)
		}
		c.buf = c.buf[:at+n]
		if _, err := io.ReadFull(in, c.buf[at:]); err != nil {
			c.buf = c.buf[:start]
			return plain(err)
		}
		if n < maxPacket {
			break
		}
	}
	body := c.buf[start:]
	switch {
	case len(body) > 0 && body[0] == wire.OK_HEADER:
		copy(body, body[1:])
		c.buf = c.buf[:len(c.buf)-1]
		c.ends = append(c.ends, len(c.buf))
		return nil
	case len(body) > 0 && body[0] == wire.ERR_HEADER:
		err := d.conn.HandleErrorPacket(append([]byte(nil), body...))
		c.buf = c.buf[:start]
		return err
	}
	c.buf = c.buf[:start]
	return errEnded
}

func (d *dump) buffer() *chunk {
	select {
	case c := <-d.free:
		return c
	default:
		return &chunk{buf: make([]byte, 0, chunkBytes+chunkBytes/4)}
	}
}

// release gives a chunk back when nothing of it is in use any more.
func (d *dump) release(c *chunk) {
	if cap(c.buf) > keptChunk {
		return
	}
	c.buf, c.ends = c.buf[:0], c.ends[:0]
	select {
	case d.free <- c:
	default:
	}
}

func (d *dump) send(ctx context.Context, c *chunk) error {
	if len(c.ends) == 0 {
		return nil
	}
	select {
	case d.chunks <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the reader and returns when it has ended.
func (d *dump) close() {
	d.stop()
	d.conn.Conn.Conn.Close()
	d.done.Wait()
}
