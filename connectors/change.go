package connectors

import (
	"slices"
	"time"
)

// Position is a place in a stream, opaque to all but the side that minted it. nil is the place before everything.
type Position []byte

// Op is what happened to a row. It starts at one, so that a forgotten field is not an operation.
type Op uint8

const (
	Snapshot Op = iota + 1 // the row was there when it was read
	Insert
	Update
	Delete
	Truncate // all rows of the table are gone; no row images
	Message  // not about a row: After is [prefix text, content bytes]
)

// opCodes are Debezium's.
const opCodes = "?rcudtm"

// Code returns the letter that stands for the operation in a record: r c u d t m.
func (o Op) Code() byte {
	if int(o) >= len(opCodes) {
		return opCodes[0]
	}
	return opCodes[o]
}

// OpOf is the inverse of Code; zero if there is no such operation.
func OpOf(code byte) Op {
	for i := 1; i < len(opCodes); i++ {
		if opCodes[i] == code {
			return Op(i)
		}
	}
	return 0
}

func (o Op) String() string {
	names := [...]string{"invalid", "snapshot", "insert", "update", "delete", "truncate", "message"}
	if int(o) >= len(names) {
		return names[0]
	}
	return names[o]
}

// Change is one event of one table. Before and After are parallel to Table.Columns where they are not nil.
//
// Insert and Snapshot have After. Update has After and, where the source knows it, Before; when the key changed, Before
// holds at least the old key. Delete has Before with at least the key. What an image does not carry is Absent.
type Change struct {
	Op     Op
	Table  *Table
	Before []Value
	After  []Value
	Time   time.Time // commit time in the source; for a snapshot, when it was read

	// Origin holds the source's own position fields as JSON members without braces, under Debezium's names
	// ("txId":771,"lsn":24023128); it becomes part of the record's source block as it is.
	Origin []byte

	// Position is where the change itself stands in the source, as text that people can compare with what the
	// database shows (0/16E7F18). It becomes the record's trunkline.position header. It is no place to resume from.
	Position Position

	// Offset is the offset of the change's record in its partition. Sources leave it zero. For a sink, the batch's
	// stream and this offset are a version that is the same on every replay.
	Offset int64
}

// Batch is a run of changes in order.
type Batch struct {
	// Stream names the order that the changes are part of: topic/partition for a sink, empty from a source. A truncate
	// of a topic with several partitions belongs to the order of all of them: a Transactional sink gets it alone, under
	// topic/-1, with a number of its own as Offset and Position.
	Stream string

	Changes []Change

	// Position covers all of the batch: whoever resumes from it sees the next change and none of these.
	// nil: inside a transaction, not a place to resume from.
	Position Position
}

// Table describes a table at one moment. It is immutable: a new pointer is a new version.
type Table struct {
	Dialect  string // whose type names Column.Type holds: postgres, sqlite, mysql
	Database string
	Schema   string
	Name     string
	ID       uint64 // the source's identity of the table, which a rename keeps and a table that takes its name lacks; 0: not known
	Columns  []Column
	Key      []int  // indexes of the key columns, in key order; none: the table has no key
	Topic    string // the topic the user named for this table; empty: by the source's template

	// Rowless: no row is of this version. It stands between two others for what it made of the values that were there.
	Rowless bool

	// Passed are the rowless versions between the one before and this one, oldest first. They are no part of the version:
	// Equal does not look at them, and a reader of the log does not get them.
	Passed []*Table
}

// EventDialect is the dialect of tables whose rows are events: column 0 is the key of a record, column 1 its value, and
// the others are headers under their names.
const EventDialect = "event"

// Column describes a column of a table. Columns of two versions can be told apart by their ID where both versions have the
// same table's ID: the same ID under another name is a rename, another ID under the same name is another column.
type Column struct {
	Name      string
	Type      string   // the dialect's own type with its modifiers: numeric(10,2)
	Kind      Kind     // the kind of every value that is not null
	Elem      Kind     // arrays: the kind of the elements
	ID        int      // the source's identity of the column, which a rename keeps and a column that takes its name lacks; 0: not known
	NotNull   bool     //
	Generated bool     // computed by the database; a sink of the same dialect never writes it
	Labels    []string // enum and set, and arrays of enums: the labels in order
}

// FullName returns schema.table, or the table alone where there is no schema.
func (t *Table) FullName() string {
	if t.Schema == "" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// Column returns the index of the named column, -1 if there is none.
func (t *Table) Column(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
}

// Equal reports whether both describe the same version: every field but the pointer.
func (t *Table) Equal(o *Table) bool {
	if t == o {
		return true
	}
	if t == nil || o == nil {
		return false
	}
	return t.Dialect == o.Dialect && t.Database == o.Database && t.Schema == o.Schema && t.Name == o.Name && t.ID == o.ID &&
		t.Topic == o.Topic && t.Rowless == o.Rowless && slices.Equal(t.Key, o.Key) && slices.EqualFunc(t.Columns, o.Columns, Column.Equal)
}

// Equal compares every field.
func (c Column) Equal(o Column) bool {
	return c.Name == o.Name && c.Type == o.Type && c.Kind == o.Kind && c.Elem == o.Elem && c.ID == o.ID &&
		c.NotNull == o.NotNull && c.Generated == o.Generated && slices.Equal(c.Labels, o.Labels)
}
