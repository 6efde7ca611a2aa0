package postgres

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Messages as PostgreSQL 15 gives them out (pg_logical_slot_peek_binary_changes): relation, insert, update with an old key,
// delete, truncate, begin and commit, of item (id int PRIMARY KEY, name text, price numeric(10,2)).
var goldenMessages = []string{
	"52000040017075626c6963006974656d006400030169640000000017ffffffff006e616d650000000019ffffffff00707269636500000006a4000a0006",
	"49000040014e0003740000000133740000000574687265657400000004332e3030",
	"55000040014b00037400000001336e6e4e000374000000023330740000000574687265657400000004332e3030",
	"44000040014b0003740000000233306e6e",
	"54000000010000004001",
	"4200000000019258100003047871c4f039000002da",
	"4300000000000192581000000000019259800003047871c4f039",
}

func golden(t testing.TB, i int) []byte {
	b, err := hex.DecodeString(goldenMessages[i])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func itemShape() *shape {
	return &shape{table: &connectors.Table{Schema: "public", Name: "item", Key: []int{0}, Columns: []connectors.Column{{Name: "id"}, {Name: "name"}, {Name: "price"}}}, streamed: 3,
		decoders: []*decoder{builtin[23], textDecoder, builtin[1700]}, index: []int{0, 1, 2}, identity: []bool{true, false, false}}
}

func TestMessagesOfTheServer(t *testing.T) {
	t.Parallel()
	m, err := parseRelation(golden(t, 0)[1:])
	if err != nil || m.oid != 0x4001 || m.schema != "public" || m.name != "item" || m.identity != 'd' || len(m.columns) != 3 || !m.key[0] || m.key[1] ||
		m.columns[2].name != "price" || m.columns[2].typ != (typeRef{1700, 0xa0006}) {
		t.Errorf("relation %+v, %v", m, err)
	}
	for i, want := range []string{"c public.item -> [3 three 3.00]", "u public.item [3 ~ ~] -> [30 three 3.00]", "d public.item [30 ~ ~]"} {
		message := golden(t, i+1)
		change := readChange(message[0], message[5:], &rows{}, itemShape(), time.Time{})
		if change == nil {
			t.Fatalf("message %d is malformed", i+1)
		}
		if got := changeText(*change); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func FuzzMessages(f *testing.F) {
	for i := range goldenMessages {
		f.Add(golden(f, i))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		if len(message) == 0 {
			return
		}
		parseRelation(message[1:])
		st := &stream{rows: &rows{}, limits: connectors.Limits{}.WithDefaults(), pos: &position{}, syncs: &syncs{}, spools: map[uint32]*spool{}, dir: t.TempDir(),
			tables: map[uint32]*tracked{0x4001: {oid: 0x4001, shape: itemShape(), relation: &relation{}}}}
		if message[0] == msgRelation { // asks the catalog
			return
		}
		st.message(t.Context(), message[0], message[1:], 1)
		for _, c := range st.rows.changes {
			for _, row := range [][]connectors.Value{c.Before, c.After} {
				if row != nil && len(row) != 3 {
					t.Errorf("a row of %d values", len(row))
				}
			}
		}
		for _, s := range st.spools {
			s.remove()
		}
	})
}

func FuzzCopyRows(f *testing.F) {
	f.Add([]byte("1\tone\t1.10\n2\ttab\\tnew\\nline\\\\\t\\N\n"), 7)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		read := func(parts ...[]byte) string {
			r := &copyReader{shape: itemShape(), limits: connectors.Limits{}.WithDefaults(), rows: &rows{}}
			r.full = func() error { return nil }
			for _, part := range parts {
				if _, err := r.Write(part); err != nil {
					return err.Error()
				}
			}
			var out strings.Builder
			for _, c := range r.rows.changes {
				out.WriteString(changeText(c))
			}
			return out.String()
		}
		cut = max(0, min(cut, len(text)))
		if whole, parts := read(text), read(text[:cut], text[cut:]); whole != parts {
			t.Errorf("read whole: %q; in parts: %q", whole, parts)
		}
	})
}

func FuzzSpool(f *testing.F) {
	f.Add([]byte{0, 0, 0, 22, 'I', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 'x'})
	f.Fuzz(func(t *testing.T, text []byte) {
		in := bufio.NewReader(bytes.NewReader(text))
		var buf []byte
		for {
			var err error
			if _, buf, err = readRecord(in, buf); err != nil {
				return
			}
		}
	})
}

func TestSpoolGivesBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	f, err := newSpool(t.TempDir(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.remove()
	for i := range 1000 {
		if err := f.write(record{kind: 'I', xid: uint32(i), at: lsn(i), clock: uint64(i), body: bytes.Repeat([]byte{byte(i)}, i)}); err != nil {
			t.Fatal(err)
		}
	}
	in, err := f.rewind()
	if err != nil {
		t.Fatal(err)
	}
	var buf []byte
	for i := range 1000 {
		var r record
		if r, buf, err = readRecord(in, buf); err != nil || r.xid != uint32(i) || r.at != lsn(i) || !bytes.Equal(r.body, bytes.Repeat([]byte{byte(i)}, i)) {
			t.Fatalf("record %d: %+v, %v", i, r, err)
		}
	}
	if _, _, err := readRecord(in, buf); !errors.Is(err, io.EOF) {
		t.Errorf("after the last record: %v", err)
	}
}

func FuzzPositions(f *testing.F) {
	f.Add([]byte(`{"slot":"s","system":"1","lsn":"0/16E7F18","tables":[16384],"snapshot":{"xmin":7,"files":{"16390":{"node":16390,"ranges":[[0,512]],"rows":3}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePosition(text)
		if err != nil {
			return
		}
		again, err := parsePosition(p.encode())
		if err != nil || again.LSN != p.LSN || again.Slot != p.Slot || len(again.Tables) != len(p.Tables) {
			t.Errorf("%s became %s, %v", text, p.encode(), err)
		}
	})
}
