package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/types/descriptorpb"
)

// mainFile is the path of the file itself. References to it are refused, since a file cannot import itself.
const mainFile = "schema.proto"

// protoFiles are a .proto file and those that its references name, compiled.
type protoFiles struct {
	main    *descriptorpb.FileDescriptorProto
	imports []*descriptorpb.FileDescriptorProto
}

// parseProto compiles a .proto file with those that its references name. What comes with protoc needs no reference.
func parseProto(w whole) (protoFiles, error) {
	var files protoFiles
	paths, texts := []string{mainFile}, map[string]string{mainFile: w.Text}
	for _, i := range w.imports {
		if i.name == mainFile {
			return files, fmt.Errorf("a reference has the name %q, which stands for the schema itself: import it under another path", mainFile)
		}
		paths, texts[i.name] = append(paths, i.name), i.Text
	}
	var first error
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
			text, ok := texts[path]
			if !ok {
				return protocompile.SearchResult{}, fmt.Errorf("no reference has the name %q", path)
			}
			return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
		})),
		MaxParallelism: 1,
		Reporter: reporter.NewReporter(func(err reporter.ErrorWithPos) error {
			where := ""
			if at := err.GetPosition(); at.Filename != mainFile {
				where = at.Filename + " "
			}
			first = fmt.Errorf("%sline %d: %w", where, err.GetPosition().Line, err.Unwrap())
			return first
		}, nil),
	}
	compiled, err := compiler.Compile(context.Background(), paths...)
	if first != nil {
		return files, first
	}
	if err != nil {
		return files, err
	}
	files.main = protoutil.ProtoFromFileDescriptor(compiled[0])
	for _, f := range compiled[1:] {
		files.imports = append(files.imports, protoutil.ProtoFromFileDescriptor(f))
	}
	if len(files.main.MessageType)+len(files.main.EnumType) == 0 {
		return files, fmt.Errorf("it has no message")
	}
	return files, nil
}

// messages lists the messages of the files by their full names, those inside of others too.
func (p protoFiles) messages() map[string]*descriptorpb.DescriptorProto {
	into := map[string]*descriptorpb.DescriptorProto{}
	for _, f := range append([]*descriptorpb.FileDescriptorProto{p.main}, p.imports...) {
		prefix := ""
		if f.GetPackage() != "" {
			prefix = f.GetPackage() + "."
		}
		messages(prefix, f.MessageType, into)
	}
	return into
}

// first returns the name of the first message of the file itself, which records begin with; none: it has only enums.
func (p protoFiles) first() string {
	if len(p.main.MessageType) == 0 {
		return ""
	}
	return p.main.MessageType[0].GetName()
}

func messages(prefix string, list []*descriptorpb.DescriptorProto, into map[string]*descriptorpb.DescriptorProto) {
	for _, m := range list {
		name := prefix + m.GetName()
		into[name] = m
		messages(name+".", m.NestedType, into)
	}
}

// readsProto compares fields by their numbers: a field that both have must keep its form on the wire. Fields that only
// one has are no trouble, and a message that is gone is one only if it was the first, which records begin with. The
// messages of references are compared as those of the file itself.
func readsProto(reader, writer whole) error {
	r, err := parseProto(reader)
	if err != nil {
		return err
	}
	w, err := parseProto(writer)
	if err != nil {
		return err
	}
	if r.main.GetPackage() != w.main.GetPackage() {
		return fmt.Errorf("package %q became %q", w.main.GetPackage(), r.main.GetPackage())
	}
	if w.first() != "" && r.first() != w.first() {
		return fmt.Errorf("the first message is no longer %s", w.first())
	}
	ours, theirs := r.messages(), w.messages()
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		mine, ok := ours[name]
		if !ok {
			continue
		}
		for _, f := range theirs[name].Field {
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
		return strings.TrimPrefix(f.GetTypeName(), ".")
	}
	return strings.ToLower(strings.TrimPrefix(f.GetType().String(), "TYPE_"))
}
