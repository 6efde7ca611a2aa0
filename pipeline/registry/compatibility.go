package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/twmb/avro"
)

// levels are the compatibilities that a subject can have.
var levels = []string{"NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"}

// modes say whether a subject takes schemas.
var modes = []string{"READWRITE", "READONLY"}

// languages are the types of schemas.
var languages = []string{"AVRO", "PROTOBUF", "JSON"}

// canonical checks a schema and takes off what makes no difference: space in JSON, and around a .proto file.
func canonical(w whole) (Schema, error) {
	s := w.Schema
	if len(s.Text) > maxSchema {
		return s, refuse(invalidSchema, "the schema has more than %d bytes", maxSchema)
	}
	switch s.Type {
	case "AVRO":
		if _, err := parseAvro(w); err != nil {
			return s, refuse(invalidSchema, "not a valid Avro schema: %v", err)
		}
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(s.Text)); err != nil {
			return s, refuse(invalidSchema, "not a valid Avro schema: %v", err)
		}
		s.Text = b.String()
		return s, nil
	case "PROTOBUF":
		if _, err := parseProto(w); err != nil {
			return s, refuse(invalidSchema, "not a valid Protobuf schema: %v", err)
		}
		s.Text = strings.TrimSpace(s.Text) + "\n"
		return s, nil
	case "JSON":
		if _, _, err := parseJSON(w); err != nil {
			return s, refuse(invalidSchema, "not a valid JSON Schema: %v", err)
		}
		var err error
		s.Text, err = canonicalJSON(s.Text)
		return s, err
	}
	return s, refuse(invalidSchema, "schemaType %q is none of %s", s.Type, strings.Join(languages, ", "))
}

// compare says how a new schema is not as compatible with an old one as the level asks: backward, readers of the new one
// read what the old one wrote; forward, the other way round.
func compare(level string, fresh, old whole) []string {
	level = strings.TrimSuffix(level, "_TRANSITIVE")
	var problems []string
	if level == "BACKWARD" || level == "FULL" {
		problems = append(problems, reads(fresh, old, "the new schema cannot read what the old one wrote")...)
	}
	if level == "FORWARD" || level == "FULL" {
		problems = append(problems, reads(old, fresh, "the old schema cannot read what the new one writes")...)
	}
	return problems
}

func reads(reader, writer whole, what string) []string {
	if reader.Type != writer.Type {
		return []string{fmt.Sprintf("%s: one is %s, the other %s", what, reader.Type, writer.Type)}
	}
	var err error
	switch reader.Type {
	case "AVRO":
		err = readsAvro(reader, writer)
	case "PROTOBUF":
		err = readsProto(reader, writer)
	default:
		err = readsJSON(reader, writer)
	}
	if err != nil {
		return []string{what + ": " + err.Error()}
	}
	return nil
}

func readsAvro(reader, writer whole) error {
	r, err := parseAvro(reader)
	if err != nil {
		return err
	}
	w, err := parseAvro(writer)
	if err != nil {
		return err
	}
	return avro.CheckCompatibility(w, r)
}

// parseAvro reads a schema after those that it names types of.
func parseAvro(w whole) (*avro.Schema, error) {
	if len(w.imports) == 0 {
		return avro.Parse(w.Text)
	}
	var known avro.SchemaCache
	for _, i := range w.imports {
		if _, err := known.Parse(i.Text); err != nil {
			return nil, fmt.Errorf("reference %q: %w", i.name, err)
		}
	}
	return known.Parse(w.Text)
}
