package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	network "net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	walBuffer    = 256 << 10
	lowWater     = 64 << 10             // see wal.fill
	lookAnyway   = 2 * time.Millisecond // the most that lowWater delays a row
	busyWindow   = 16 << 10             // bytes in a window of lookAnyway that switch lowWater on
	quietWindow  = 4 << 10              // and off
	pingEvery    = 5 * time.Second      // at most; a third of wal_sender_timeout if that is less
	farewell     = 2 * time.Second
	namedAfter   = 64 // bytes of a message, after which its table is known
	minPing      = 50 * time.Millisecond
	writeTimeout = 15 * time.Second
	pgEpoch      = 946684800 // 2000-01-01 in Unix seconds
)

// wal is a connection in replication mode. It is read by one goroutine; status may be sent by any.
//
// pgoutput sends every row on its own. A reader that keeps up would be woken for each, and the server pays for that
// too: its sender gets slower by half. So on TCP, while much is coming, the reader asks to be woken for 64 KiB only, and
// looks anyway after two milliseconds. While little is coming it is woken for every byte, so that a single commit
// arrives at once.
type wal struct {
	conn  network.Conn
	buf   []byte
	r, w  int // what is read but not taken
	limit int // of one message; more is an error

	canWait  bool // setLowWater works
	busy     bool // it is set
	window   int  // bytes since windowAt
	windowAt time.Time
	heard    time.Time

	mu      sync.Mutex // around writes
	out     []byte
	flushed atomic.Uint64 // what the server may forget

	wakeMu sync.Mutex
	woken  bool

	stop   chan struct{}
	done   sync.WaitGroup
	failed atomic.Pointer[error] // of the goroutine that sends status
}

// startWAL starts replication on a connection in replication mode, which it takes over.
func startWAL(ctx context.Context, conn *pgconn.PgConn, command string, start lsn, every time.Duration, limit int) (*wal, error) {
	if err := conn.SyncConn(ctx); err != nil {
		return nil, err
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return nil, err
	}
	w := &wal{conn: hijacked.Conn, limit: limit, buf: make([]byte, walBuffer), heard: time.Now(), windowAt: time.Now(), stop: make(chan struct{})}
	w.flushed.Store(uint64(start))
	if err := w.begin(ctx, command); err != nil {
		w.conn.Close()
		return nil, err
	}
	w.canWait = setLowWater(w.conn, 1)
	w.done.Add(1)
	go w.keepAlive(every)
	return w, nil
}

// begin sends START_REPLICATION and waits for the answer.
func (w *wal) begin(ctx context.Context, command string) error {
	deadline := time.Now().Add(2 * connectTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	w.conn.SetDeadline(deadline)
	defer w.conn.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { w.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	query := append([]byte{'Q', 0, 0, 0, 0}, command...)
	query = append(query, 0)
	binary.BigEndian.PutUint32(query[1:], uint32(len(query)-1))
	if _, err := w.conn.Write(query); err != nil {
		return fmt.Errorf("start replication: %w", err)
	}
	for {
		kind, body, ok, err := w.next()
		if err != nil {
			return err
		}
		switch {
		case !ok:
			w.room(walBuffer)
			n, err := w.conn.Read(w.buf[w.w:])
			if err != nil {
				return fmt.Errorf("start replication: %w", err)
			}
			w.w += n
		case kind == 'W':
			return nil
		case kind == 'E':
			return parseError(body)
		}
	}
}

// next returns the next whole message in the buffer: its kind and body, valid until fill. ok is false when there is
// none. A message over the limit is an error.
func (w *wal) next() (kind byte, body []byte, ok bool, err error) {
	have := w.buf[w.r:w.w]
	if len(have) < 5 {
		return 0, nil, false, nil
	}
	size := int(binary.BigEndian.Uint32(have[1:]))
	if size < 4 {
		return 0, nil, false, fmt.Errorf("read replication stream: message %q of %d bytes", have[0], size)
	}
	if size > w.limit {
		if len(have) < namedAfter {
			return 0, nil, false, nil
		}
		return have[0], have[5:], false, errMessageTooLarge
	}
	if len(have) < 1+size {
		return 0, nil, false, nil
	}
	w.r += 1 + size
	return have[0], have[5 : 1+size], true, nil
}

// commitFollows reports that the next message is there and is a commit.
func (w *wal) commitFollows() bool {
	have := w.buf[w.r:w.w]
	return len(have) > 30 && have[0] == 'd' && have[5] == 'w' && have[30] == msgCommit && len(have) > int(binary.BigEndian.Uint32(have[1:]))
}

var errMessageTooLarge = errors.New("message over the limit")

// room makes space for the rest of the message that is begun, and for at least some bytes more.
func (w *wal) room(min int) {
	need := min
	if w.w-w.r >= 5 {
		if size := int(binary.BigEndian.Uint32(w.buf[w.r+1:])); size <= w.limit {
			need = max(need, 1+size-(w.w-w.r))
		}
	}
	switch {
	case w.r == w.w && cap(w.buf) > 8*walBuffer && need <= walBuffer:
		w.buf = make([]byte, walBuffer) // a huge message is gone: give its memory back
	case len(w.buf)-w.w >= need:
		return
	case len(w.buf)-(w.w-w.r) >= need:
		copy(w.buf, w.buf[w.r:w.w])
		w.w -= w.r
		w.r = 0
		return
	default:
		bigger := make([]byte, max(w.w-w.r+need, walBuffer))
		w.w = copy(bigger, w.buf[w.r:w.w])
		w.r, w.buf = 0, bigger
		return
	}
	w.r, w.w = 0, 0
}

// fill reads what is there, and waits for it no longer than wait. It returns zero and no error when nothing came, or
// when it was woken.
func (w *wal) fill(wait time.Duration) (int, error) {
	if err := w.failed.Load(); err != nil {
		return 0, *err
	}
	w.room(lowWater)
	now := time.Now()
	w.wakeMu.Lock()
	if w.woken {
		w.woken = false
		w.wakeMu.Unlock()
		return 0, nil
	}
	w.conn.SetReadDeadline(now.Add(wait))
	w.wakeMu.Unlock()
	n, err := w.conn.Read(w.buf[w.w:])
	w.w += n
	w.window += n
	if n > 0 {
		w.heard = time.Now()
		now = w.heard
	}
	if now.Sub(w.windowAt) >= lookAnyway || w.window >= busyWindow {
		w.adapt()
		w.window, w.windowAt = 0, now
	}
	switch {
	case err == nil || n > 0:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, nil
	case errors.Is(err, io.EOF):
		return 0, errors.New("read replication stream: the server closed the connection")
	}
	return 0, fmt.Errorf("read replication stream: %w", err)
}

// adapt switches lowWater on and off by what came in the last window.
func (w *wal) adapt() {
	if !w.canWait {
		return
	}
	if !w.busy && w.window >= busyWindow {
		w.busy = setLowWater(w.conn, lowWater)
	} else if w.busy && w.window < quietWindow {
		setLowWater(w.conn, 1)
		w.busy = false
	}
}

// wake makes fill return, now or the next time.
func (w *wal) wake() {
	w.wakeMu.Lock()
	w.woken = true
	w.conn.SetReadDeadline(time.Unix(1, 0))
	w.wakeMu.Unlock()
}

// keepAlive tells the server regularly where we are, whether or not anyone reads, so that a long pause never runs into
// wal_sender_timeout; and asks for an answer, so that a dead server is found out.
func (w *wal) keepAlive(every time.Duration) {
	defer w.done.Done()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			if err := w.status(true); err != nil {
				w.failed.Store(&err)
				w.wake()
				return
			}
		}
	}
}

// status sends a standby status update:
//
//	'd' length:4 'r' written:8 flushed:8 applied:8 clock:8 reply:1
func (w *wal) status(reply bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	flushed := w.flushed.Load()
	w.out = append(w.out[:0], 'd', 0, 0, 0, 38, 'r')
	for range 3 {
		w.out = binary.BigEndian.AppendUint64(w.out, flushed)
	}
	w.out = binary.BigEndian.AppendUint64(w.out, uint64(time.Now().UnixMicro()-pgEpoch*1e6))
	ask := byte(0)
	if reply {
		ask = 1
	}
	w.out = append(w.out, ask)
	w.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.conn.Write(w.out); err != nil {
		return fmt.Errorf("send position to the server: %w", err)
	}
	return nil
}

// close ends the connection and waits a moment for the server to end its side, after which the slot is free.
func (w *wal) close() {
	close(w.stop)
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.conn.Close()
	w.conn.SetDeadline(time.Now().Add(farewell))
	if _, err := w.conn.Write([]byte{'X', 0, 0, 0, 4}); err != nil { // Terminate; after CopyDone the server would first send the rest
		return
	}
	for {
		if _, err := w.conn.Read(w.buf); err != nil {
			return
		}
	}
}

// parseError reads an ErrorResponse: fields of one byte and a text that ends with zero, until a zero byte.
func parseError(body []byte) error {
	e := &pgconn.PgError{}
	for len(body) > 1 {
		text, rest, ok := strings.Cut(string(body[1:]), "\x00")
		if !ok {
			break
		}
		switch body[0] {
		case 'S':
			e.Severity = text
		case 'C':
			e.Code = text
		case 'M':
			e.Message = text
		}
		body = []byte(rest)
	}
	return e
}
