// Package document makes typed rows of JSON objects and of texts, whose table nobody has declared as a database does.
//
// It promises that no value is lost or bent on the way: a number keeps its digits, a document its text. What a column
// holds is declared (types) or follows from its values: a column is there from its first value that is not null, and when a
// value comes that its kind cannot hold, the kind becomes wider, in a new version of the table, and never narrower again. A
// source stores what it knows of its tables in its position (State), so that a restart changes nothing.
//
// It reads no file and no connection: the sources file, exec, http and kafka, which call it, do.
package document

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Content says what an object is.
type Content string

// The contents.
const (
	Rows    Content = "rows"    // a row: its members are columns
	Changes Content = "changes" // a change: a line of a sink of type file, or a record of Trunkline's or Debezium's log
)

// Settings are the part of a source's settings that this package follows.
type Settings struct {
	Key   []string        `yaml:"key"`   // the key columns; none
	Types map[string]Type `yaml:"types"` // of columns, by name; a column that is not in it is as its values are
}

// Validate checks the settings.
func (s *Settings) Validate() error {
	var errs []error
	seen := map[string]bool{}
	for _, k := range s.Key {
		if k == "" || seen[k] {
			errs = append(errs, errors.New("key has an empty name, or one twice"))
		}
		seen[k] = true
	}
	for name := range s.Types {
		if name == "" {
			errs = append(errs, errors.New("types has an empty name"))
		}
	}
	return errors.Join(errs...)
}

// Type is the declared type of a column: int, decimal(10,2), timestamptz.
type Type struct {
	name string
	kind connectors.Kind
}

// typeNames are those that transforms know, as far as a text can hold their values.
var typeNames = map[string]connectors.Kind{
	"text": connectors.Text, "varchar": connectors.Text, "string": connectors.Text, "uuid": connectors.Text,
	"smallint": connectors.Int, "int": connectors.Int, "integer": connectors.Int, "bigint": connectors.Int,
	"real": connectors.Float, "double": connectors.Float, "float": connectors.Float,
	"numeric": connectors.Decimal, "decimal": connectors.Decimal,
	"boolean": connectors.Bool, "bool": connectors.Bool,
	"bytes": connectors.Bytes, "bytea": connectors.Bytes,
	"json": connectors.JSON, "jsonb": connectors.JSON,
	"date": connectors.Date, "time": connectors.Time, "timestamp": connectors.Timestamp, "timestamptz": connectors.TimestampTZ,
}

// UnmarshalText reads a type.
func (t *Type) UnmarshalText(text []byte) error {
	full := strings.ToLower(strings.ReplaceAll(string(text), " ", ""))
	name, modifier, ok := strings.Cut(full, "(")
	kind, known := typeNames[name]
	if !known {
		return fmt.Errorf("is no type; there are %s", strings.Join(slices.Sorted(maps.Keys(typeNames)), ", "))
	}
	digits := strings.Trim(modifier, "0123456789,")
	if ok && (digits != ")" || kind != connectors.Decimal && kind != connectors.Text) {
		return errors.New("has something else in parentheses than a length or a precision: decimal(10,2), varchar(20)")
	}
	*t = Type{name: full, kind: kind}
	return nil
}

// String returns the type as it was written.
func (t Type) String() string { return t.name }
