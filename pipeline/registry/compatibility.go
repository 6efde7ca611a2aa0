package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/types/descriptorpb"
)

// levels are the compatibilities that a subject can have.
var levels = []string{"NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"}

// modes say whether a subject takes schemas.
var modes = []string{"READWRITE", "READONLY"}

// canonical checks a schema and takes off what makes no difference: space in JSON, and around a .proto file.
func canonical(s Schema) (Schema, error) {
	if len(s.Text) > maxSchema {
		return s, refuse(invalidSchema, "the schema has more than %d bytes", maxSchema)
	}
	switch s.Type {
	case "", "AVRO":
		if _, err := avro.Parse(s.Text); err != nil {
			return s, refuse(invalidSchema, "not a valid Avro schema: %v", err)
		}
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(s.Text)); err != nil {
			return s, refuse(invalidSchema, "not a valid Avro schema: %v", err)
		}
		return Schema{"AVRO", b.String()}, nil
	case "PROTOBUF":
		if _, err := parseProto(s.Text); err != nil {
			return s, refuse(invalidSchema, "not a valid Protobuf schema: %v", err)
		}
		return Schema{"PROTOBUF", strings.TrimSpace(s.Text) + "\n"}, nil
	}
	return s, refuse(invalidSchema, "schemaType %q is none of AVRO, PROTOBUF", s.Type)
}

// compare says how a new schema is not as compatible with an old one as the level asks: backward, readers of the new one
// read what the old one wrote; forward, the other way round.
func compare(level string, fresh, old Schema) []string {
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

func reads(reader, writer Schema, what string) []string {
	if reader.Type != writer.Type {
		return []string{fmt.Sprintf("%s: one is %s, the other %s", what, reader.Type, writer.Type)}
	}
	var err error
	if reader.Type == "AVRO" {
		err = readsAvro(reader, writer)
	} else {
		err = readsProto(reader, writer)
	}
	if err != nil {
		return []string{what + ": " + err.Error()}
	}
	return nil
}

func readsAvro(reader, writer Schema) error {
	r, err := avro.Parse(reader.Text)
	if err != nil {
		return err
	}
	w, err := avro.Parse(writer.Text)
	if err != nil {
		return err
	}
	return avro.CheckCompatibility(w, r)
}

// parseProto reads a .proto file that stands alone.
func parseProto(text string) (*descriptorpb.FileDescriptorProto, error) {
	var first error
	handler := reporter.NewHandler(reporter.NewReporter(func(err reporter.ErrorWithPos) error {
		if first == nil {
			first = fmt.Errorf("line %d: %w", err.GetPosition().Line, err.Unwrap())
		}
		return nil
	}, nil))
	file, err := parser.Parse("schema.proto", strings.NewReader(text), handler)
	if first != nil {
		return nil, first
	}
	if err != nil {
		return nil, err
	}
	result, err := parser.ResultFromAST(file, true, handler)
	if first != nil {
		return nil, first
	}
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(file.Decls, isMessage) {
		return nil, fmt.Errorf("it has no message")
	}
	return result.FileDescriptorProto(), nil
}

func isMessage(e ast.FileElement) bool {
	_, ok := e.(*ast.MessageNode)
	return ok
}

// messages lists the messages of a file by their names, those inside of others too.
func messages(prefix string, list []*descriptorpb.DescriptorProto, into map[string]*descriptorpb.DescriptorProto) {
	for _, m := range list {
		name := prefix + m.GetName()
		into[name] = m
		messages(name+".", m.NestedType, into)
	}
}

// readsProto compares fields by their numbers: a field that both have must keep its form on the wire. Fields that only
// one has are no trouble, and a message that is gone is one only if it was the first, which records begin with.
func readsProto(reader, writer Schema) error {
	r, err := parseProto(reader.Text)
	if err != nil {
		return err
	}
	w, err := parseProto(writer.Text)
	if err != nil {
		return err
	}
	if r.GetPackage() != w.GetPackage() {
		return fmt.Errorf("package %q became %q", w.GetPackage(), r.GetPackage())
	}
	ours, theirs := map[string]*descriptorpb.DescriptorProto{}, map[string]*descriptorpb.DescriptorProto{}
	messages("", r.MessageType, ours)
	messages("", w.MessageType, theirs)
	if len(r.MessageType) == 0 || r.MessageType[0].GetName() != w.MessageType[0].GetName() {
		return fmt.Errorf("the first message is no longer %s", w.MessageType[0].GetName())
	}
	for name, m := range theirs {
		mine, ok := ours[name]
		if !ok {
			continue
		}
		for _, f := range m.Field {
			i := slices.IndexFunc(mine.Field, func(o *descriptorpb.FieldDescriptorProto) bool { return o.GetNumber() == f.GetNumber() })
			if i >= 0 && wireForm(mine.Field[i]) != wireForm(f) {
				return fmt.Errorf("field %d of %s was %s %s and is %s %s", f.GetNumber(), name, protoName(f), f.GetName(), protoName(mine.Field[i]), mine.Field[i].GetName())
			}
		}
	}
	return nil
}

// wireForm names what is interchangeable in the bytes of a message: integers without zig-zag and booleans and enums,
// text and bytes; and whether a field is a list.
func wireForm(f *descriptorpb.FieldDescriptorProto) string {
	form := f.GetType().String()
	switch f.GetType() {
	case descriptorpb.FieldDescriptorProto_TYPE_INT32, descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_UINT32,
		descriptorpb.FieldDescriptorProto_TYPE_UINT64, descriptorpb.FieldDescriptorProto_TYPE_BOOL:
		form = "integer"
	case descriptorpb.FieldDescriptorProto_TYPE_SINT32, descriptorpb.FieldDescriptorProto_TYPE_SINT64:
		form = "zigzag"
	case descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES:
		form = "bytes"
	}
	if f.GetTypeName() != "" {
		form = "type " + f.GetTypeName()
	}
	if f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED {
		form += " list"
	}
	return form
}

func protoName(f *descriptorpb.FieldDescriptorProto) string {
	if f.GetTypeName() != "" {
		return f.GetTypeName()
	}
	return strings.ToLower(strings.TrimPrefix(f.GetType().String(), "TYPE_"))
}
