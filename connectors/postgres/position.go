package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pglogrepl"

	"github.com/trunkline/trunkline/connectors"
)

// position is what a mark of this source says. As JSON it is a connectors.Position:
//
//	slot, system   the slot and the server's system identifier that lsn belongs to
//	lsn            where the stream goes on: the end of the last transaction that is durable
//	tables         oids of the tables whose rows from before the stream are durable; ascending
//	begun          oids of the tables that are being read while the stream goes on; ascending
//	imprints       what the catalog said of each table, by oid, when it was judged last whether its rows changed unseen
//	columns        the columns of each table, with their attribute numbers, as they were handed over last; deflated JSON
//	snapshot       how far the snapshot is; gone when it is complete
type position struct {
	Slot     string          `json:"slot"`
	System   string          `json:"system"`
	LSN      lsn             `json:"lsn"`
	Tables   []uint32        `json:"tables"`
	Begun    []uint32        `json:"begun,omitempty"`
	Imprints json.RawMessage `json:"imprints,omitempty"`
	Columns  []byte          `json:"columns,omitempty"`
	Snapshot *snapshotMark   `json:"snapshot,omitempty"`
}

// snapshotMark says which rows of an unfinished snapshot are durable.
type snapshotMark struct {
	// XMin is the oldest transaction that the first snapshot did not see as ended. What it or a later one wrote into
	// a finished range has to be read again after a crash.
	XMin uint64 `json:"xmin"`

	// Changed are tables that a statement changed before they were read as a whole: they are read anew when the stream goes on.
	Changed []uint32 `json:"changed,omitempty"`

	// Keys are the sets of keys that mode timestamp knew, by table: those that are gone still have to be handed over.
	Keys map[uint32]string `json:"keys,omitempty"`

	// Files are the finished parts of tables, or of partitions of a table, by oid.
	Files map[uint32]*fileMark `json:"files,omitempty"`
}

// fileMark says which pages of one table file are durable.
type fileMark struct {
	Node   uint32      `json:"node"`   // the file that the pages are of; another one makes them void
	Ranges [][2]uint32 `json:"ranges"` // first page and the page after the last; ascending, apart
	Rows   int64       `json:"rows"`   // for progress reports

	// Of a file whose rows mode timestamp handed over: XMin in place of the snapshot's, the newer transactions whose
	// rows were handed over too, and the cursor column if rows without a cursor were not.
	XMin  uint64 `json:"xmin,omitempty"`
	Seen  xids   `json:"seen,omitzero"`
	Nulls string `json:"nulls,omitempty"`
}

// finish adds a range of pages.
func (f *fileMark) finish(from, to uint32) {
	i, _ := slices.BinarySearchFunc(f.Ranges, from, func(r [2]uint32, p uint32) int { return int(int64(r[0]) - int64(p)) })
	f.Ranges = slices.Insert(f.Ranges, i, [2]uint32{from, to})
	if i+1 < len(f.Ranges) && f.Ranges[i+1][0] <= to {
		f.Ranges[i][1] = max(to, f.Ranges[i+1][1])
		f.Ranges = slices.Delete(f.Ranges, i+1, i+2)
	}
	if i > 0 && f.Ranges[i-1][1] >= f.Ranges[i][0] {
		f.Ranges[i-1][1] = max(f.Ranges[i-1][1], f.Ranges[i][1])
		f.Ranges = slices.Delete(f.Ranges, i, i+1)
	}
}

// encode returns the position as the pipeline stores it.
func (p *position) encode() connectors.Position {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // cannot happen: numbers, text and slices of them
	}
	return text
}

func parsePosition(text connectors.Position) (*position, error) {
	var p position
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("read saved position: %w", err)
	}
	return &p, nil
}

// lsn is a place in the WAL, as text like 0/16E7F18.
type lsn uint64

func (l lsn) String() string { return string(l.append(nil)) }

// append appends the text form: two halves in hexadecimal, without leading zeros.
func (l lsn) append(dst []byte) []byte {
	dst = appendHexUpper(dst, uint32(l>>32))
	dst = append(dst, '/')
	return appendHexUpper(dst, uint32(l))
}

func appendHexUpper(dst []byte, n uint32) []byte {
	const digits = "0123456789ABCDEF"
	shift := 28
	for shift > 0 && n>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		dst = append(dst, digits[n>>shift&15])
	}
	return dst
}

func parseLSN(text string) (lsn, error) {
	l, err := pglogrepl.ParseLSN(text)
	if err != nil {
		return 0, fmt.Errorf("read position %s: not of the form 0/16E7F18", strconv.Quote(text))
	}
	return lsn(l), nil
}

// MarshalText and UnmarshalText are the text form.
func (l lsn) MarshalText() ([]byte, error) { return l.append(nil), nil }

// UnmarshalText is the inverse of MarshalText.
func (l *lsn) UnmarshalText(text []byte) error {
	parsed, err := parseLSN(string(text))
	*l = parsed
	return err
}
