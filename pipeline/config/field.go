package config

import (
	"reflect"
	"strings"
)

// fields maps the keys of a struct to its fields, those of inlined structs too.
type fields map[string][]int

// fieldsOf reads the yaml tags of t. An exported field without a tag has its name in lower case, as in yaml.v3.
func fieldsOf(t reflect.Type) fields {
	out := fields{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline" || (f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct):
			for inner, index := range fieldsOf(f.Type) {
				out[inner] = append([]int{i}, index...)
			}
		case !f.IsExported() || name == "-":
		case name == "":
			out[strings.ToLower(f.Name)] = []int{i}
		default:
			out[name] = []int{i}
		}
	}
	return out
}

func (f fields) names() []string {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	return names
}
