// Package codec turns changes into the bytes of records and back, and keeps the versions of every table's schema.
//
// It promises that a change comes back from its record as it went in (docs/records.md has the exceptions: a commit time
// is kept in milliseconds), that a record names the schema it was written with, and that no value passes through a
// float or a local clock. It moves no records; pipeline/ingest and pipeline/deliver call it.
package codec

import (
	"errors"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Headers of a record.
const (
	HeaderSchema   = "trunkline.schema"   // the schema id, decimal
	HeaderPosition = "trunkline.position" // Change.Position
	// HeaderBarrier stands on the copies of a truncate, one in each partition of its topic: an id that they share,
	// decimal.
	HeaderBarrier = "trunkline.barrier"
	// HeaderMove stands on the two records of a row that got another key, where one cannot be understood without the
	// other: see Move.
	HeaderMove = "trunkline.move"
	// HeaderHeld stands on a record that waits because its table is paused: the topic and partition that it is for. It is
	// taken off when the record goes there.
	HeaderHeld = "trunkline.held"
	// HeaderEnvelope names the envelope of records that are not Lossless.
	HeaderEnvelope = "trunkline.envelope"
	// HeaderNewKey and HeaderOldKey stand on the delete and the insert of a row that got another key, in the envelopes
	// that are not Lossless: the other one's key.
	HeaderNewKey = "__debezium.newkey"
	HeaderOldKey = "__debezium.oldkey"
)

// Encoder writes the key and the value of records. It belongs to one goroutine.
type Encoder interface {
	// AppendKey appends the key of a row, whose values are parallel to the table's columns. A key column that is
	// absent from row is taken from other, which may be nil. A table without a key has no keys: dst comes back as it is.
	AppendKey(dst []byte, t *connectors.Table, row, other []connectors.Value) ([]byte, error)

	// AppendValue appends the value of a change. now is when it is processed.
	AppendValue(dst []byte, c *connectors.Change, now time.Time) ([]byte, error)

	// Takes reports whether changes of that operation become records.
	Takes(op connectors.Op) bool

	// Tombstone reports whether a record without a value follows that of a delete.
	Tombstone(compacted bool) bool

	// Name names the envelope.
	Name() Envelope
}

// RecordError says that a record cannot be read as a change, however often it is tried: it has no schema, or its bytes
// are not what its schema says. Err holds no values.
type RecordError struct {
	Err error
}

func (e *RecordError) Error() string { return "decode record: " + e.Err.Error() }

func (e *RecordError) Unwrap() error { return e.Err }

func refuse(format string, args ...any) error { return &RecordError{Err: fmt.Errorf(format, args...)} }

// errNoSchema is the reason of records that were produced by others.
var errNoSchema = errors.New("no header " + HeaderSchema + ": the record was not written by a source")

// MessageTable describes the changes of Op Message, which belong to no table: the prefix is a text, the content bytes.
var MessageTable = &connectors.Table{
	Name: "message",
	Columns: []connectors.Column{
		{Name: "prefix", Type: "text", Kind: connectors.Text, NotNull: true},
		{Name: "content", Type: "bytes", Kind: connectors.Bytes},
	},
	Key: []int{0},
}
