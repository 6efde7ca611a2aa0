package registry

import (
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// jsonTypes is a set of types of JSON values. Integers are apart from the other numbers.
type jsonTypes uint8

const (
	nulls jsonTypes = 1 << iota
	booleans
	integers
	fractions
	texts
	arrays
	objects

	numbers  = integers | fractions
	allTypes = nulls | booleans | numbers | texts | arrays | objects
)

// typeSet turns what a schema's type says into a set.
func typeSet(types *jsonschema.Types) jsonTypes {
	var set jsonTypes
	for _, name := range types.ToStrings() {
		set |= map[string]jsonTypes{"null": nulls, "boolean": booleans, "integer": integers, "number": numbers, "string": texts, "array": arrays, "object": objects}[name]
	}
	return set
}

func (t jsonTypes) String() string {
	if t == allTypes {
		return "any"
	}
	var names []string
	for _, name := range []struct {
		set  jsonTypes
		name string
	}{{nulls, "null"}, {booleans, "boolean"}, {fractions, "number"}, {integers, "integer"}, {texts, "string"}, {arrays, "array"}, {objects, "object"}} {
		if t&name.set != 0 && !(name.set == integers && t&fractions != 0) {
			names = append(names, name.name)
		}
	}
	return strings.Join(names, " or ")
}

// jsonFacts are what holds for each value that is valid for all of some schemas.
type jsonFacts struct {
	all      []*jsonschema.Schema
	types    jsonTypes
	values   []any // no other value is valid; nil: there is no list
	required map[string]bool
}

func newJSONFacts(all []*jsonschema.Schema) *jsonFacts {
	f := &jsonFacts{all: all, types: allTypes, required: map[string]bool{}}
	for _, s := range all {
		if isNever(s) {
			f.types = 0
		}
		if s.Types != nil {
			f.types &= typeSet(s.Types)
		}
		switch {
		case s.Const != nil:
			f.values = []any{*s.Const}
		case s.Enum != nil && f.values == nil:
			f.values = s.Enum.Values
		}
		for _, name := range s.Required {
			f.required[name] = true
		}
	}
	return f
}

// never is valid for nothing; stringSchema for strings.
var (
	never        = func() *jsonschema.Schema { no := false; return &jsonschema.Schema{Bool: &no} }()
	stringSchema = func() *jsonschema.Schema {
		var types jsonschema.Types
		types.Add("string")
		return &jsonschema.Schema{Types: &types}
	}()
)

// orBool reads what is a schema, true, false or absent. Nil allows everything.
func orBool(v any) *jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return v
	case bool:
		if !v {
			return never
		}
	}
	return nil
}

func additional(s *jsonschema.Schema) *jsonschema.Schema { return orBool(s.AdditionalProperties) }

// property returns what a schema asks of one property.
func property(s *jsonschema.Schema, name string) []*jsonschema.Schema {
	var list []*jsonschema.Schema
	if schema := s.Properties[name]; schema != nil {
		list = append(list, schema)
	}
	for pattern, schema := range s.PatternProperties {
		if pattern.MatchString(name) {
			list = append(list, schema)
		}
	}
	if len(list) == 0 {
		if schema := additional(s); schema != nil && !hasOpaque(s) {
			list = append(list, schema)
		}
	}
	return list
}

// hasOpaque says whether names may fit a pattern that cannot be tried.
func hasOpaque(s *jsonschema.Schema) bool {
	for pattern := range s.PatternProperties {
		if _, ok := pattern.(opaque); ok {
			return true
		}
	}
	return false
}

// items returns what a schema asks of the first items of an array, and of the others, in the words of either draft.
func items(s *jsonschema.Schema) (prefix []*jsonschema.Schema, rest *jsonschema.Schema) {
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		return list, orBool(s.AdditionalItems)
	}
	if s.Items != nil {
		return nil, orBool(s.Items)
	}
	return s.PrefixItems, s.Items2020
}

// item returns what a schema asks of the item at a place; nil: nothing.
func item(s *jsonschema.Schema, at int) *jsonschema.Schema {
	prefix, rest := items(s)
	if at < len(prefix) {
		return prefix[at]
	}
	return rest
}
