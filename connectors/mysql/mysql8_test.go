package mysql

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/trunkline/trunkline/connectors"
)

// handmade is one event with a header, as MySQL's description of the format has it.
func handmade(typ byte, body ...byte) []byte {
	b := make([]byte, eventHeader, eventHeader+len(body))
	binary.LittleEndian.PutUint32(b, 1_790_000_000)
	b[4], b[5] = typ, 1
	binary.LittleEndian.PutUint32(b[9:], uint32(eventHeader+len(body)))
	return append(b, body...)
}

// handmadeInsert is a transaction of one row (7, "x", {"a": 1}) of d.t, with the end given.
func handmadeInsert(end []byte) []byte {
	begin := append(make([]byte, 13), "\x00BEGIN"...) // no schema, no status variables
	tableMap := append([]byte{9, 0, 0, 0, 0, 0, 1, 0}, "\x01d\x00\x01t\x00\x03\x03\x0f\xf5\x03\x50\x00\x04\x06"...)
	rows := append([]byte{9, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 7, 0, 7, 0, 0, 0, 1}, "x\x0d\x00\x00\x00\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"...)
	return append(append(append(handmade(eventQuery, begin...), handmade(eventTableMap, tableMap...)...), handmade(eventWriteRows2, rows...)...), end...)
}

// handmadeStream reads events that no server sent.
func handmadeStream(t *testing.T, events ...[]byte) *stream {
	t.Helper()
	config := DefaultSourceConfig()
	config.Tables = []connectors.TableSpec{{Name: "d.*"}}
	tables := &schemas{catalog: &catalog{config: &config}, sets: &charsets{}}
	def := &definition{Columns: []columnDef{{Name: "id", Type: "int"}, {Name: "v", Type: "varchar(20)", Charset: "utf8mb4"}, {Name: "doc", Type: "json"}}, Key: []string{"id"}}
	if err := tables.set(tableName{"d", "t"}, def); err != nil {
		t.Fatal(err)
	}
	gtids, err := parseGTIDs(false, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{source: &Source{config: config, env: connectors.NewEnv("d")}, schemas: tables, limits: connectors.Limits{}.WithDefaults(), pos: &position{}, gtids: gtids,
		rows: &rows{}, committed: true, maps: map[uint64]*mapped{}, prepared: map[string]*preparedTx{}, chunk: &chunk{}}
	for _, e := range events {
		s.chunk.buf = append(s.chunk.buf, e...)
		s.chunk.ends = append(s.chunk.ends, len(s.chunk.buf))
	}
	return s
}

// MySQL 8 packs the events of a transaction into one, and gives GTIDs tags. No server of that kind takes part: these bytes
// are made by the description of the format.
func TestEventsOfMySQL8(t *testing.T) {
	t.Parallel()
	inner := handmadeInsert(handmade(eventXID, 1, 0, 0, 0, 0, 0, 0, 0))
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	pack := func(method byte, data []byte) []byte {
		head := []byte{2, 1, method, 3, 3, 0xfc, byte(len(inner)), byte(len(inner) >> 8), 1, 1, byte(len(data)), 0}
		return handmade(eventPayload, append(head, data...)...)
	}
	gtid := handmade(eventGTID, append(append([]byte{1}, "0123456789abcdef"...), 5, 0, 0, 0, 0, 0, 0, 0)...)
	// serialization of version 0: size, last field that counts, then number and value of each field; integers are shifted
	// by the bits that tell their length, texts have their length before them
	body := []byte{0, 70 << 1, 3 << 1, 0, 1 << 1, 1 << 1}
	for _, c := range []byte("0123456789abcdef") {
		body = append(body, c<<1)
	}
	tagged := handmade(eventTaggedGTID, append(append(body, 2<<1, 5<<2, 3<<1, 4<<1), "blue"...)...)
	const server = "30313233-3435-3637-3839-616263646566"
	for name, c := range map[string]struct {
		events [][]byte
		gtid   string
	}{
		"zstd":         {[][]byte{gtid, pack(0, encoder.EncodeAll(inner, nil))}, server + ":5"},
		"uncompressed": {[][]byte{gtid, pack(255, inner)}, server + ":5"},
		"tagged":       {[][]byte{tagged, pack(0, encoder.EncodeAll(inner, nil))}, server + ":blue:5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := handmadeStream(t, c.events...)
			if full, err := s.advance(t.Context()); full || err != nil {
				t.Fatalf("%v %v", full, err)
			}
			if len(s.rows.changes) != 1 || changeText(s.rows.changes[0]) != `c t -> [7 x {"a": 1}]` {
				t.Fatalf("%d changes", len(s.rows.changes))
			}
			if origin := string(s.rows.changes[0].Origin); !strings.Contains(origin, `"gtid":"`+c.gtid+`"`) {
				t.Errorf("the change stands at %s", origin)
			}
			b, err := s.take()
			if err != nil {
				t.Fatal(err)
			}
			p, err := parsePosition(b.Position)
			if err != nil || p.GTID != c.gtid {
				t.Errorf("position %s, want %s: %v", b.Position, c.gtid, err)
			}
		})
	}
}

// A partial JSON update stops the source and says what to set; one of a table that nobody wants does not.
func TestPartialJSONStopsTheSource(t *testing.T) {
	t.Parallel()
	events := handmadeInsert(nil)
	partial := handmade(eventPartialUpdate, 9, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 7, 7)
	s := handmadeStream(t, handmade(eventAnonymousGTID, make([]byte, 25)...))
	s.inner = append(events, partial...)
	_, err := s.advance(t.Context())
	if err == nil || !strings.Contains(err.Error(), "binlog_row_value_options") || !strings.Contains(err.Error(), "d.t") {
		t.Errorf("got %v", err)
	}
	other := handmade(eventPartialUpdate, 8, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 7, 7)
	s = handmadeStream(t, handmade(eventAnonymousGTID, make([]byte, 25)...), other)
	if _, err := s.advance(t.Context()); err != nil {
		t.Errorf("a table that nobody wants: %v", err)
	}
}

// The log tells places in 32 bits, which a file outgrows with one huge transaction: places go on growing.
func TestPlacesBehindFourGigabytes(t *testing.T) {
	t.Parallel()
	s := handmadeStream(t)
	s.at = place{"mysql-bin.000001", 1<<32 - 100}
	for _, c := range []struct {
		end  uint32
		want uint64
	}{{1<<32 - 50, 1<<32 - 50}, {30, 1<<32 + 30}, {4096, 1<<32 + 4096}, {10, 2<<32 + 10}, {0, 2<<32 + 10}} {
		if s.at = s.track(&event{end: c.end}); s.at.Pos != c.want {
			t.Errorf("an event that ends at %d ends at %d, want %d", c.end, s.at.Pos, c.want)
		}
	}
	if s.at.before(place{"mysql-bin.000001", 1<<32 + 4096}) {
		t.Error("a later event looks older")
	}
}
