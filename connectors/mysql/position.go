package mysql

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// position is what a mark of this source says. As JSON it is a connectors.Position:
//
//	server    the server's id, which file, pos and created belong to
//	file, pos the end of the last transaction that is durable
//	created   when the file was begun, as its first event says: a file of the same name with another time is another one
//	gtid      the same place as a set of GTIDs
//	redo      where to begin instead, to see transactions of XA that are prepared and not decided
//	tables    the tables whose rows from before the stream are durable
//	skip      tables whose rows were read at a later place, up to which the stream leaves their changes out
//	history   what the tables look like at this place; deflated JSON
//	snapshot  how far the snapshot is; gone when it is complete
//	altered   tables that are to be read anew, because rows have changed without events; true: some are gone
type position struct {
	Server   uint32              `json:"server"`
	File     string              `json:"file"`
	Pos      uint64              `json:"pos"`
	Created  uint32              `json:"created,omitempty"`
	GTID     string              `json:"gtid,omitempty"`
	Tables   []tableName         `json:"tables"`
	Redo     *redo               `json:"redo,omitempty"`
	Skip     map[tableName]place `json:"skip,omitempty"`
	History  []byte              `json:"history,omitempty"`
	Snapshot *snapshotMark       `json:"snapshot,omitempty"`
	Altered  map[tableName]bool  `json:"altered,omitempty"`
}

// place is a place in the binary log of one server.
type place struct {
	File string `json:"f"`
	Pos  uint64 `json:"p"`
}

// number stands for the place where a number has to tell it from others.
func (p place) number() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", p.File, p.Pos)
	return h.Sum64()
}

// before reports whether p lies before q. Numbers at the end of file names grow, and so does their length.
func (p place) before(q place) bool {
	if p.File != q.File {
		if len(p.File) != len(q.File) {
			return len(p.File) < len(q.File)
		}
		return p.File < q.File
	}
	return p.Pos < q.Pos
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Pos) }

// snapshotMark says which rows of an unfinished snapshot are durable.
type snapshotMark struct {
	Tables map[tableName]*tableMark `json:"tables,omitempty"`
	Sync   bool                     `json:"sync,omitempty"`  // of some tables only, while the stream pauses
	Again  []tableName              `json:"again,omitempty"` // those of them that were read before
	Void   []tableName              `json:"void,omitempty"`  // those of them whose rows from before are gone

	// Changed are tables that a statement changed before they were read as a whole. They are read when the stream pauses next.
	Changed []tableName `json:"changed,omitempty"`

	// Entry is what mode timestamp had handed over when this one took over.
	Entry map[tableName]*extractedTable `json:"entry,omitempty"`
}

// tableMark says which rows of one table are durable.
type tableMark struct {
	Done   bool        `json:"done,omitempty"`
	Ranges [][2]uint64 `json:"ranges,omitempty"` // of an integer key, moved so that the smallest is 0; both ends are part of it
	After  []string    `json:"after,omitempty"`  // the last key of a table that is read in the order of its key, as SQL literals
	Rows   int64       `json:"rows,omitempty"`   // for progress reports
}

// finish adds a range of keys.
func (m *tableMark) finish(from, to uint64) {
	i, _ := slices.BinarySearchFunc(m.Ranges, from, func(r [2]uint64, k uint64) int {
		switch {
		case r[0] < k:
			return -1
		case r[0] > k:
			return 1
		}
		return 0
	})
	m.Ranges = slices.Insert(m.Ranges, i, [2]uint64{from, to})
	if i+1 < len(m.Ranges) && to+1 != 0 && m.Ranges[i+1][0] <= to+1 {
		m.Ranges[i][1] = max(to, m.Ranges[i+1][1])
		m.Ranges = slices.Delete(m.Ranges, i+1, i+2)
	}
	if i > 0 && m.Ranges[i-1][1]+1 >= m.Ranges[i][0] {
		m.Ranges[i-1][1] = max(m.Ranges[i-1][1], m.Ranges[i][1])
		m.Ranges = slices.Delete(m.Ranges, i, i+1)
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

// history is what the tables looked like at a place in the binary log.
type history map[tableName]*definition

// maxHistory bounds what a saved history may unfold to.
const maxHistory = 256 << 20

// packHistory makes the history small enough to be part of every mark.
func packHistory(h history) ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("store schema history: %w", err)
	}
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("store schema history: %w", err)
	}
	return out.Bytes(), nil
}

func unpackHistory(packed []byte) (history, error) {
	h := history{}
	if len(packed) == 0 {
		return h, nil
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxHistory))
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		return nil, fmt.Errorf("read saved schema history: %w", err)
	}
	return h, nil
}
