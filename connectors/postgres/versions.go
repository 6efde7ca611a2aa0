package postgres

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// versions remembers which columns and which key each table had when it was handed over last. It is part of the position: a source that
// was away compares what the stream says with that, and not with the catalog, which has gone on meanwhile. It is used by
// the goroutine that reads.
type versions struct {
	tables map[uint32][]attribute
	keys   map[uint32][]int  // attribute numbers; without an entry: not known
	hashes map[uint32]uint32 // of tables that had no room in the position
	text   []byte            // nil: not made yet
}

const (
	maxVersions  = 256 << 10 // bytes of JSON before it is deflated; of tables beyond that a hash is kept
	maxUnpacked  = 256 << 20
	columnBytes  = 32 // of JSON, without the name
	versionBytes = 16
)

// savedVersion is a table in the position.
type savedVersion struct {
	Columns []savedColumn `json:"c,omitempty"`
	Key     []int         `json:"k"` // null: not known
	Hash    uint32        `json:"h,omitempty"`
}

type savedColumn struct {
	Number int16  `json:"n"`
	Name   string `json:"s"`
	Type   uint32 `json:"t"`
	Mod    int32  `json:"m"`
}

func newVersions() *versions {
	return &versions{tables: map[uint32][]attribute{}, keys: map[uint32][]int{}, hashes: map[uint32]uint32{}}
}

// set notes the columns of a table, and its key.
func (v *versions) set(oid uint32, columns []attribute, table *connectors.Table) {
	key, known := v.keys[oid]
	if old, ok := v.tables[oid]; ok && known && equal(old, columns) && slices.Equal(key, keyIDs(table)) {
		return
	}
	v.tables[oid], v.keys[oid], v.text = slices.Clone(columns), keyIDs(table), nil
	delete(v.hashes, oid)
}

// equal reports that two lists have the same numbers, names and types.
func equal(a, b []attribute) bool {
	return slices.EqualFunc(a, b, func(x, y attribute) bool { return x.number == y.number && x.same(&y) })
}

// get returns the columns of a table, and those of the catalog for one that is not known. Where there was no room for them
// and they are not those of the catalog, it is not sure.
func (v *versions) get(oid uint32, now []attribute) (columns []attribute, sure bool) {
	if columns, ok := v.tables[oid]; ok {
		return columns, true
	}
	h, ok := v.hashes[oid]
	return now, !ok || h == hashColumns(now)
}

// keep forgets the tables that are not tracked any more.
func (v *versions) keep(tables map[uint32]*tracked) {
	n := len(v.tables) + len(v.hashes)
	maps.DeleteFunc(v.tables, func(oid uint32, _ []attribute) bool { return tables[oid] == nil })
	maps.DeleteFunc(v.keys, func(oid uint32, _ []int) bool { return tables[oid] == nil })
	maps.DeleteFunc(v.hashes, func(oid, _ uint32) bool { return tables[oid] == nil })
	if n != len(v.tables)+len(v.hashes) {
		v.text = nil
	}
}

func hashColumns(columns []attribute) uint32 {
	h := fnv.New32a()
	for _, a := range columns {
		fmt.Fprintf(h, "%d %q %d %d,", a.number, a.name, a.typ.oid, a.typ.mod)
	}
	return max(h.Sum32(), 1)
}

// packed is the form for a position.
func (v *versions) packed() []byte {
	if v.text != nil || len(v.tables)+len(v.hashes) == 0 {
		return v.text
	}
	saved := map[uint32]savedVersion{}
	for oid, h := range v.hashes {
		saved[oid] = savedVersion{Hash: h}
	}
	room := maxVersions
	for oid, columns := range v.tables {
		size := versionBytes
		for _, a := range columns {
			size += columnBytes + len(a.name)
		}
		if size > room {
			saved[oid] = savedVersion{Hash: hashColumns(columns)}
			continue
		}
		room -= size
		var list []savedColumn
		for _, a := range columns {
			list = append(list, savedColumn{a.number, a.name, a.typ.oid, a.typ.mod})
		}
		saved[oid] = savedVersion{Columns: list, Key: v.keys[oid]}
	}
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		err = json.NewEncoder(w).Encode(saved)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // cannot happen: numbers and text, in memory
	}
	v.text = out.Bytes()
	return v.text
}

// unpackVersions is the inverse of packed.
func unpackVersions(packed []byte) (*versions, error) {
	v := newVersions()
	if len(packed) == 0 {
		return v, nil
	}
	saved := map[uint32]savedVersion{}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxUnpacked))
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err != nil {
		return nil, fmt.Errorf("read columns of the saved position: %w", err)
	}
	for oid, s := range saved {
		if s.Hash != 0 {
			v.hashes[oid] = s.Hash
			continue
		}
		v.tables[oid] = []attribute{}
		if s.Key != nil {
			v.keys[oid] = s.Key
		}
		for _, c := range s.Columns {
			v.tables[oid] = append(v.tables[oid], attribute{number: c.Number, name: c.Name, typ: typeRef{c.Type, c.Mod}})
		}
	}
	return v, nil
}

// previous are the columns that were handed over last.
func (t *tracked) previous() []attribute {
	switch {
	case t.known != nil:
		return t.known
	case t.shape != nil:
		return t.shape.columns()
	}
	return nil
}

// streamed are the columns that the stream has.
func (r *relation) streamed() []attribute {
	return slices.DeleteFunc(slices.Clone(r.columns), func(a attribute) bool { return a.generated })
}

// recall gives a live table the columns that were handed over last, where those of the catalog are others.
func (s *Source) recall(t *tracked) {
	columns, sure := s.versions.get(t.oid, t.shape.columns())
	switch {
	case !sure:
		s.imprints.doubts(t.oid)
	case !equal(columns, t.shape.columns()), s.versions.rekeyed(t):
		t.known = columns
		return
	}
	s.versions.set(t.oid, t.shape.columns(), t.shape.table)
}

// rekeyed reports that the table had another key when it was handed over last than it has in its shape.
func (v *versions) rekeyed(t *tracked) bool {
	key, known := v.keys[t.oid]
	return known && t.shape != nil && !slices.Equal(key, keyIDs(t.shape.table))
}

// versionBefore returns the version in which a table was handed over last, where the one of today has another key: a target could not
// give that to the rows that it has. It is nil where the key is the same, or what it was cannot be told any more.
func (s *stream) versionBefore(ctx context.Context, t *tracked) *connectors.Table {
	columns := s.versions.tables[t.oid]
	if !s.versions.rekeyed(t) || len(columns) == 0 || len(t.relation.spec.Key) > 0 {
		return nil
	}
	relation := *t.relation
	relation.identity, relation.primary = 'd', nil
	for _, number := range s.versions.keys[t.oid] {
		relation.primary = append(relation.primary, int16(number))
	}
	ctx, cancel := unhurried(ctx)
	defer cancel()
	shape, err := s.catalog.shape(ctx, &relation, slices.Clone(columns))
	if err != nil { // a type of then may be gone
		return nil
	}
	return shape.table
}
