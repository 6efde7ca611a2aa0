package mysql

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"
)

// Events of the binary log (libbinlogevents, sql/log_event.h of both servers) have a header:
//
//	timestamp:4 type:1 server:4 size:4 end:4 flags:2
//
// size counts the header; end is where the next event begins, modulo 4 GiB, and zero for what is not in the file.
const (
	eventHeader = 19

	eventQuery         = 2
	eventRotate        = 4
	eventFormat        = 15
	eventXID           = 16
	eventTableMap      = 19
	eventWriteRows1    = 23
	eventUpdateRows1   = 24
	eventDeleteRows1   = 25
	eventIncident      = 26
	eventHeartbeat     = 27
	eventWriteRows2    = 30
	eventUpdateRows2   = 31
	eventDeleteRows2   = 32
	eventGTID          = 33
	eventAnonymousGTID = 34
	eventXAPrepare     = 38
	eventPartialUpdate = 39
	eventPayload       = 40
	eventHeartbeat2    = 41
	eventTaggedGTID    = 42

	eventMariaGTID       = 162
	eventMariaQuery      = 165 // compressed, as all that follow
	eventMariaWriteRows1 = 166
	eventMariaUpdate1    = 167
	eventMariaDelete1    = 168
	eventMariaWriteRows2 = 169
	eventMariaUpdate2    = 170
	eventMariaDelete2    = 171

	flagArtificial = 0x20
)

// event is one event in parts. Its body belongs to the chunk it came in.
type event struct {
	typ    byte
	server uint32
	time   uint32
	size   uint32
	end    uint32
	flags  uint16
	body   []byte
}

func errEvent(kind string) error { return fmt.Errorf("read binary log: malformed %s event", kind) }

func parseEvent(b []byte) (event, error) {
	if len(b) < eventHeader {
		return event{}, errEvent("short")
	}
	return event{
		time: binary.LittleEndian.Uint32(b), typ: b[4], server: binary.LittleEndian.Uint32(b[5:]), size: binary.LittleEndian.Uint32(b[9:]),
		end: binary.LittleEndian.Uint32(b[13:]), flags: binary.LittleEndian.Uint16(b[17:]), body: b[eventHeader:],
	}, nil
}

// checksumBytes is the length of the CRC-32 behind an event, which says that it has one in the format event: the byte
// before that event's own checksum.
const checksumBytes = 4

// summed reports whether the last bytes are the checksum of the others.
func summed(b []byte) bool {
	n := len(b) - checksumBytes
	return n >= eventHeader && crc32.ChecksumIEEE(b[:n]) == binary.LittleEndian.Uint32(b[n:])
}

// unsum takes the checksum off and verifies it. The event that begins a stream comes before the one that tells whether
// there are checksums, so it is asked itself.
func (s *stream) unsum(b []byte) ([]byte, error) {
	if s.deep || len(b) < eventHeader+checksumBytes {
		return b, nil
	}
	n := len(b) - checksumBytes
	if b[4] == eventFormat {
		s.sums = b[n-1] == 1
		return b[:n], nil // also there when the others have none
	}
	switch {
	case b[4] == eventRotate && binary.LittleEndian.Uint16(b[17:])&flagArtificial != 0 || binary.LittleEndian.Uint32(b[13:]) == 0:
		if summed(b) {
			return b[:n], nil
		}
		return b, nil
	case !s.sums:
		return b, nil
	case !summed(b):
		return nil, fmt.Errorf("read binary log: an event behind %s has a wrong checksum", s.at)
	}
	return b[:n], nil
}

// queryEvent is a statement: DDL, or the beginning or end of a transaction.
type queryEvent struct {
	thread uint32
	schema string
	text   string
	ansi   bool // the session's sql_mode had ANSI_QUOTES
	raw    bool // and NO_BACKSLASH_ESCAPES
	failed bool
}

// parseQuery reads thread:4 seconds:4 schema length:1 error:2 status length:2 status schema 0 statement.
func parseQuery(b []byte, compressed bool) (*queryEvent, error) {
	c := cursor{b: b}
	q := &queryEvent{thread: uint32(c.uint(4))}
	c.take(4)
	n := int(c.uint(1))
	q.failed = c.uint(2) != 0
	status := c.take(int(c.uint(2)))
	q.schema = string(c.take(n))
	c.take(1)
	if c.bad {
		return nil, errEvent("query")
	}
	mode := sqlMode(status)
	q.ansi, q.raw = mode&4 != 0, mode&(1<<20) != 0
	text := c.b
	if compressed {
		plain, err := decompress(text)
		if err != nil {
			return nil, errEvent("compressed query")
		}
		text = plain
	}
	q.text = string(text)
	return q, nil
}

// sqlMode finds sql_mode among the status variables. It is the second at most, behind flags2.
func sqlMode(status []byte) uint64 {
	c := cursor{b: status}
	for len(c.b) > 0 && !c.bad {
		switch c.uint(1) {
		case 0: // flags2
			c.take(4)
		case 1:
			return c.uint(8)
		default:
			return 0
		}
	}
	return 0
}

// word returns the first word of a statement in upper case, and whether it is all of it.
func (q *queryEvent) word() (first string, alone bool) {
	text := strings.TrimSpace(q.text)
	i := strings.IndexFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if i < 0 {
		return strings.ToUpper(text), true
	}
	return strings.ToUpper(text[:i]), false
}

// mariaBegin is MariaDB's GTID event, which opens every group.
type mariaBegin struct {
	gtid       mariaGTID
	standalone bool // one statement, without an end of its own
	prepares   bool // XA PREPARE
	completes  bool // XA COMMIT or ROLLBACK
	xid        string
}

// parseMariaGTID reads sequence:8 domain:4 flags:1 [commit:8] [XA: format:4 lengths:1,1 the two parts].
func parseMariaGTID(e *event) (mariaBegin, error) {
	c := cursor{b: e.body}
	var b mariaBegin
	b.gtid.sequence, b.gtid.domain, b.gtid.server = c.uint(8), uint32(c.uint(4)), e.server
	flags := c.uint(1)
	if c.bad {
		return b, errEvent("GTID")
	}
	b.standalone, b.prepares, b.completes = flags&1 != 0, flags&64 != 0, flags&128 != 0
	if flags&2 != 0 {
		c.take(8)
	}
	if b.prepares || b.completes {
		format := c.uint(4)
		first, second := int(c.uint(1)), int(c.uint(1))
		b.xid = fmt.Sprintf("%d:%x:%x", format, c.take(first), c.take(second))
		if c.bad {
			return b, errEvent("GTID")
		}
	}
	return b, nil
}

// mysqlBegin is MySQL's GTID event.
type mysqlBegin struct {
	server uuid.UUID
	tag    string
	number int64
}

func (g mysqlBegin) String() string {
	if g.tag != "" {
		return fmt.Sprintf("%s:%s:%d", g.server, g.tag, g.number)
	}
	return fmt.Sprintf("%s:%d", g.server, g.number)
}

// parseMySQLGTID reads flags:1 server:16 number:8. The tagged form has a serialization of its own.
func parseMySQLGTID(e *event) (g mysqlBegin, err error) {
	if e.typ == eventTaggedGTID {
		return parseTaggedGTID(e.body)
	}
	c := cursor{b: e.body}
	c.take(1)
	copy(g.server[:], c.take(16))
	g.number = int64(c.uint(8))
	if c.bad {
		return g, errEvent("GTID")
	}
	return g, nil
}

// parseTaggedGTID leaves the event to the library, which takes its form for granted: where it panics, the event is damaged.
func parseTaggedGTID(body []byte) (g mysqlBegin, err error) {
	defer func() {
		if recover() != nil {
			g, err = mysqlBegin{}, errEvent("tagged GTID")
		}
	}()
	var t replication.GtidTaggedLogEvent
	if err := t.Decode(body); err != nil {
		return g, errEvent("tagged GTID")
	}
	copy(g.server[:], t.SID)
	g.tag, g.number = t.Tag.String(), t.GNO
	return g, nil
}

// payload unpacks a compressed transaction: fields of type, length and bytes up to a type of 0, then the events.
func payload(b []byte) ([]byte, error) {
	c := cursor{b: b}
	method, size := uint64(255), uint64(0)
	for !c.bad {
		typ := c.packed()
		if typ == 0 {
			break
		}
		field := cursor{b: c.take(int(c.packed()))}
		switch typ {
		case 2:
			method = field.packed()
		case 3:
			size = field.packed()
		}
	}
	if c.bad {
		return nil, errEvent("transaction payload")
	}
	switch method {
	case 255:
		return c.b, nil
	case 0:
		return unzstd(c.b, size)
	}
	return nil, fmt.Errorf("read binary log: a compressed transaction of the unknown method %d", method)
}

// nextFile reads position:8 name of a rotate event.
func nextFile(b []byte) (place, error) {
	if len(b) < 9 {
		return place{}, errEvent("rotate")
	}
	return place{File: string(bytes.TrimRight(b[8:], "\x00")), Pos: binary.LittleEndian.Uint64(b)}, nil
}
