package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// An ALTER can change what the rows of a table hold, or what they are called, without a change of any row, so that the
// stream says nothing: ADD COLUMN with a default, ALTER COLUMN TYPE, ALTER TYPE RENAME VALUE, another primary key, another
// name. It is found by comparing what the catalog says with what it said when the rows that were handed over were judged
// last. The judgment is part of the position, so that what happens while nobody reads is found too.

// imprint is what matters here of a table in the catalog, in so few bytes that every position can have it.
type imprint struct {
	name   uint32 // hash of schema and name
	key    uint32 // hash of the key's attribute numbers, in order
	node   uint32 // the table's file, or the hash of those of its partitions: another one after each rewrite
	last   uint32 // the highest attribute number
	types  uint32 // hash of the columns' numbers and types
	label  uint32 // the highest oid of a label of an enum in use
	labels uint32 // hash of the labels, and of the attributes of composite types
	doubt  uint32 // 1: which column is which could not be told from the stream

	of *relation // what it was made from; nil for one that was read from a position
}

// member is a label of an enum, or an attribute of a composite type, that values of a column show.
type member struct {
	column int16
	id     uint32 // of a label: its oid, which a renamed label keeps
	label  bool
	text   string
}

// imprintOf describes a relation.
func imprintOf(r *relation) imprint {
	l := imprint{name: hash(r.schema, r.name), node: r.node, last: uint32(max(r.last, 0)), of: r}
	l.key = hash(r.keyNumbers()...)
	for _, m := range r.members {
		if m.label {
			l.label = max(l.label, m.id)
		}
	}
	l.types, l.labels = l.typesIn(r), l.labelsIn(r)
	return l
}

// keyNumbers are the attribute numbers of the key's columns.
func (r *relation) keyNumbers() []string {
	numbers := r.primary
	if r.identity == 'i' {
		numbers = r.index
	}
	if len(r.spec.Key) > 0 {
		numbers = nil
		for _, name := range r.spec.Key {
			if i := slices.IndexFunc(r.columns, func(a attribute) bool { return a.name == name }); i >= 0 {
				numbers = append(numbers, r.columns[i].number)
			}
		}
	}
	var out []string
	for _, n := range numbers {
		out = append(out, strconv.Itoa(int(n)))
	}
	return out
}

// typesIn is the hash of the types that r has for the columns of l, without those that are gone where that is known.
func (l *imprint) typesIn(r *relation) uint32 {
	var parts []string
	for _, a := range r.columns {
		if uint32(a.number) <= l.last {
			parts = append(parts, fmt.Sprint(a.number, a.typ.oid, a.typ.mod))
		}
	}
	return hash(parts...)
}

// labelsIn is the hash of the members that r has for the columns and labels of l.
func (l *imprint) labelsIn(r *relation) uint32 {
	var parts []string
	for _, m := range r.members {
		if uint32(m.column) <= l.last && (!m.label || m.id <= l.label) {
			parts = append(parts, fmt.Sprint(m.id, m.text))
		}
	}
	slices.Sort(parts)
	return hash(slices.Compact(parts)...)
}

// without returns the imprint as it would be without the columns that r does not have any more.
func (l imprint) without(r *relation) imprint {
	if l.of == nil {
		return l
	}
	kept := *l.of
	gone := func(number int16) bool {
		return !slices.ContainsFunc(r.columns, func(a attribute) bool { return a.number == number })
	}
	kept.columns = slices.DeleteFunc(slices.Clone(kept.columns), func(a attribute) bool { return gone(a.number) })
	kept.members = slices.DeleteFunc(slices.Clone(kept.members), func(m member) bool { return gone(m.column) })
	l.types, l.labels = l.typesIn(&kept), l.labelsIn(&kept)
	return l
}

func hash(parts ...string) uint32 {
	h := fnv.New32a()
	for _, p := range parts {
		fmt.Fprintf(h, "%q", p)
	}
	return h.Sum32()
}

// MarshalText writes the numbers in base 36, parted by dots.
func (l imprint) MarshalText() ([]byte, error) {
	var b []byte
	for i, n := range l.numbers() {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendUint(b, uint64(*n), 36)
	}
	return b, nil
}

// UnmarshalText is the inverse of MarshalText.
func (l *imprint) UnmarshalText(text []byte) error {
	parts := bytes.Split(text, []byte("."))
	numbers := l.numbers()
	if len(parts) != len(numbers) && len(parts) != len(numbers)-1 { // those from before there were doubts
		return fmt.Errorf("read imprint: %d numbers, want %d", len(parts), len(numbers))
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(string(part), 36, 32)
		if err != nil {
			return fmt.Errorf("read imprint: %w", err)
		}
		*numbers[i] = uint32(n)
	}
	return nil
}

func (l *imprint) numbers() []*uint32 {
	return []*uint32{&l.name, &l.key, &l.node, &l.last, &l.types, &l.label, &l.labels, &l.doubt}
}

// verdict says what became of a table, and what that asks for.
type verdict struct {
	reason  string // empty: rows that were handed over are still as they were
	replace bool   // they have to go, because the rows are found under another key or name now
}

// judge compares the table as it is with the imprint.
func (l imprint) judge(r *relation) verdict {
	now := imprintOf(r)
	l = l.without(r)
	var why []string
	switch {
	case l.name != now.name:
		return verdict{"it has another name", true}
	case l.key != now.key:
		return verdict{"it has another key", true}
	case l.node != now.node && l.types != l.typesIn(r):
		why = append(why, "a column has another type")
	}
	for _, a := range r.columns {
		if uint32(a.number) > l.last && (a.missing || l.node != now.node) {
			why = append(why, "rows got a value in the new column "+ident(a.name))
		}
	}
	if l.doubt != 0 {
		why = append(why, "of several changes of its columns the stream does not tell which column became which")
	}
	if l.labels != l.labelsIn(r) {
		why = append(why, "labels of an enum or attributes of a composite type changed")
	}
	return verdict{reason: strings.Join(why, "; ")}
}

// imprints holds the judgment of each table whose rows were handed over. All methods may be called from any goroutine.
type imprints struct {
	mu      sync.Mutex
	known   map[uint32]imprint
	left    []uint32           // hashes of names under which rows were handed over of a table that has another name now
	reading map[uint32]imprint // of a table that is read anew: at the moment at which it is read
	text    json.RawMessage    // of known; nil: not made yet
}

// judge says whether the table has to be read anew. One that need not is taken for judged.
func (l *imprints) judge(r *relation) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, reading := l.reading[r.oid]
	if !reading {
		var ok bool
		if old, ok = l.known[r.oid]; !ok {
			return verdict{} // its rows are still to be read
		}
	}
	v := old.judge(r)
	switch {
	case v.reason != "":
	case reading:
		l.reading[r.oid] = imprintOf(r)
	default:
		l.settle(r.oid, imprintOf(r))
	}
	return v
}

// accept takes the table for judged as it is.
func (l *imprints) accept(r *relation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(r.oid, imprintOf(r))
}

func (l *imprints) settle(oid uint32, now imprint) {
	old, ok := l.known[oid]
	l.known[oid] = now
	old.of, now.of = nil, nil
	if !ok || old != now {
		l.text = nil
	}
}

// doubts notes that rows of the table may hold values of other columns than they should, until it is read anew.
func (l *imprints) doubts(oid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range []map[uint32]imprint{l.reading, l.known} {
		if of, ok := list[oid]; ok {
			of.doubt = 1
			list[oid] = of
			l.text = nil
			return
		}
	}
}

// has reports that rows of the table were handed over.
func (l *imprints) has(oid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.known[oid]
	return ok
}

// replaced reports that the rows of a table are found under another name or key since it was judged.
func (l *imprints) replaced(r *relation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.known[r.oid]
	return ok && old.judge(r).replace
}

// begin notes the moment at which a table is read anew.
func (l *imprints) begin(r *relation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading[r.oid] = imprintOf(r)
}

// end notes that the table was read anew, or that this failed. A table that had its name before is not known any more then.
func (l *imprints) end(oid uint32, read bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, ok := l.reading[oid]
	delete(l.reading, oid)
	if !read || !ok {
		return
	}
	if old, ok := l.known[oid]; ok && old.name != now.name {
		l.left = append(l.left, old.name)
	}
	l.left = slices.DeleteFunc(l.left, func(name uint32) bool { return name == now.name })
	maps.DeleteFunc(l.known, func(other uint32, old imprint) bool { return other != oid && old.name == now.name })
	l.settle(oid, now)
	l.text = nil
}

// taken reports that rows of another table were handed over under the name.
func (l *imprints) taken(oid uint32, schema, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := hash(schema, name)
	for other, old := range l.known {
		if other != oid && old.name == h {
			return true
		}
	}
	return slices.Contains(l.left, h)
}

// imprintsJSON is how a position holds them.
type imprintsJSON struct {
	Tables map[uint32]imprint `json:"tables"`
	Left   []uint32           `json:"left,omitempty"`
}

// encoded is the JSON for a position.
func (l *imprints) encoded() json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known)+len(l.left) == 0 {
		return nil
	}
	if l.text == nil {
		text, err := json.Marshal(imprintsJSON{l.known, l.left})
		if err != nil {
			panic(err) // cannot happen: numbers and text
		}
		l.text = text
	}
	return l.text
}

// newImprints starts with those of a position, and with the present one of each table whose rows that position has but no
// imprint: it was written before there were any.
func newImprints(saved json.RawMessage, tables []*tracked, read []uint32) (*imprints, error) {
	l := &imprints{known: map[uint32]imprint{}, reading: map[uint32]imprint{}}
	if saved != nil {
		in := imprintsJSON{Tables: l.known}
		if err := json.Unmarshal(saved, &in); err != nil {
			return nil, fmt.Errorf("read saved position: %w", err)
		}
		l.left = in.Left
	}
	for _, t := range tables {
		if _, ok := l.known[t.oid]; !ok && slices.Contains(read, t.oid) {
			l.known[t.oid] = imprintOf(t.relation)
		}
	}
	return l, nil
}

// membersQuery finds what the values of columns show of types that users made: arrays, domains, ranges and composite
// types are followed to what they are made of.
const membersQuery = `WITH RECURSIVE used(rel, number, typ) AS (
  SELECT attrelid, attnum, atttypid FROM pg_catalog.pg_attribute WHERE attrelid = ANY($1::oid[]) AND attnum > 0 AND NOT attisdropped AND atttypid >= 16384
  UNION SELECT u.rel, u.number, x.typ FROM used u JOIN pg_catalog.pg_type t ON t.oid = u.typ CROSS JOIN LATERAL (
    SELECT t.typelem WHERE t.typelem <> 0 UNION ALL SELECT t.typbasetype WHERE t.typbasetype <> 0
    UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
    UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) x(typ))
SELECT rel, number, e.oid::int8, true, e.enumlabel::text FROM used JOIN pg_catalog.pg_enum e ON e.enumtypid = typ
UNION ALL SELECT rel, number, a.attrelid::int8 + a.attnum, false, a.attname || ' ' || a.atttypid || ' ' || a.atttypmod
FROM used JOIN pg_catalog.pg_type t ON t.oid = typ AND t.typtype = 'c' JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped`

func scanMember(rows pgx.Rows) (oid uint32, m member, err error) {
	var id int64
	err = rows.Scan(&oid, &m.column, &id, &m.label, &m.text)
	m.id = uint32(id)
	return oid, m, err
}
