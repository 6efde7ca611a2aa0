package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/pipeline/spelling"
)

// maxDepth and maxNodes bound what a file full of aliases can unfold to.
const (
	maxDepth = 50
	maxNodes = 100_000
)

// decoder walks the nodes of one file into structs and collects everything that is wrong. It never stops at an error.
type decoder struct {
	file    string
	in      inserter
	written map[*yaml.Node]string // scalars in which something was inserted, as the file has them
	broken  map[*yaml.Node]bool   // scalars that were reported already
	lines   map[string]int        // of each value, by its path
	errs    Errors
	nodes   int
}

func (d *decoder) fail(line int, path, problem string) {
	d.errs = append(d.errs, Error{File: d.file, Line: line, Path: path, Problem: d.mask(problem)})
}

// mask puts the references back in place of inserted values. Shorter values are in too many words to be told apart,
// and too short to be secret.
func (d *decoder) mask(text string) string {
	for value, reference := range d.in.values {
		if len(value) >= minSecret {
			text = strings.ReplaceAll(text, value, reference)
		}
	}
	return text
}

// entry is one key of a mapping with its value.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

// entries lists a mapping. Repeated keys and keys that are no text are reported and left out. A missing value stands
// for an empty mapping, because that is what is left when every line below a key is a comment.
func (d *decoder) entries(n *yaml.Node, path string) ([]entry, bool) {
	if n = d.follow(n, path); n == nil {
		return nil, false
	}
	if isEmpty(n) {
		return nil, true
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, path, fmt.Sprintf("expected keys with values, found %s", d.describe(n)))
		return nil, false
	}
	list, first := make([]entry, 0, len(n.Content)/2), map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch line, repeated := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.fail(key.Line, path, "a key must be text")
		case key.Tag == "!!merge":
			d.fail(key.Line, path, "merging with << is not supported; write the keys out")
		case repeated:
			d.fail(key.Line, join(path, key.Value), fmt.Sprintf("repeated key, first given in line %d", line))
		default:
			first[key.Value] = key.Line
			list = append(list, entry{key.Value, key, n.Content[i+1]})
		}
	}
	return list, true
}

// follow resolves an alias, and counts what is visited. It returns nil where the file must not be read further.
func (d *decoder) follow(n *yaml.Node, path string) *yaml.Node {
	if d.nodes++; d.nodes > maxNodes || strings.Count(path, ".")+strings.Count(path, "[") > maxDepth {
		if d.nodes <= maxNodes+1 {
			d.fail(n.Line, path, "too deep or too large once its aliases are followed")
			d.nodes = maxNodes + 1
		}
		return nil
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || d.broken[n] {
		return nil
	}
	return n
}

// unknownKey begins the findings about keys that nothing reads.
const unknownKey = "unknown key"

// structure fills the struct v from entries. also holds further names that are valid at this place, for hints.
func (d *decoder) structure(list []entry, v reflect.Value, path string, also []string) {
	known := fieldsOf(v.Type())
	names := append(known.names(), also...)
	for _, e := range list {
		index, ok := known[e.name]
		if !ok {
			d.unknown(e, path, unknownKey, names)
			continue
		}
		d.value(e.value, v.FieldByIndex(index), join(path, e.name))
	}
}

// unknown reports a name that is none of valid, with the nearest one or with all of them.
func (d *decoder) unknown(e entry, path, problem string, valid []string) {
	finding := Error{File: d.file, Line: e.key.Line, Path: join(path, e.name), Problem: problem, Hint: spelling.Nearest(e.name, valid)}
	if finding.Hint == "" {
		slices.Sort(valid)
		finding.Problem += "; valid here: " + strings.Join(slices.Compact(valid), ", ")
	}
	d.errs = append(d.errs, finding)
}

// validated runs the Validate method of v, if it has one and the values of its keys decoded well. Beside an unknown key
// nothing is called missing: it is most likely the one that was meant.
func (d *decoder) validated(v reflect.Value, list []entry, line int, path string, before int) {
	found := d.errs[before:]
	if !v.CanAddr() || slices.ContainsFunc(found, func(e Error) bool { return !strings.HasPrefix(e.Problem, unknownKey) }) {
		return
	}
	misspelt := len(found) > 0
	validator, ok := v.Addr().Interface().(interface{ Validate() error })
	if !ok {
		return
	}
	for _, problem := range split(validator.Validate()) {
		if !misspelt || !strings.Contains(problem.Error(), "missing") {
			d.failNamed(list, line, path, problem.Error())
		}
	}
}

// failNamed reports a problem in words at the key that the words begin with ("slot …"), where the file has that key.
func (d *decoder) failNamed(list []entry, line int, path, problem string) {
	word, rest, _ := strings.Cut(problem, " ")
	name := strings.TrimSuffix(word, ":")
	for _, e := range list {
		if e.name == name {
			d.fail(e.key.Line, join(path, e.name), rest)
			return
		}
	}
	d.fail(line, path, problem)
}

// value fills v from n by the kind of v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if n = d.follow(n, path); n == nil {
		return
	}
	d.lines[path] = n.Line
	if v.Type() == reflect.TypeFor[yaml.Node]() {
		v.Set(reflect.ValueOf(*n)) // whoever asked for it knows what may stand here
		return
	}
	if n.Kind == yaml.ScalarNode && d.text(n, v, path) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		before := len(d.errs)
		if list, ok := d.entries(n, path); ok {
			d.structure(list, v, path, nil)
			d.validated(v, list, n.Line, path, before)
		}
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.table(n, v, path)
	case reflect.Interface:
		d.timing(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// text hands a scalar to UnmarshalText, and reports whether v has that method.
func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) bool {
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		return false
	}
	before := len(d.errs)
	switch {
	case isEmpty(n):
		d.fail(n.Line, path, "has no value")
	default:
		if err := u.UnmarshalText([]byte(n.Value)); err != nil {
			d.fail(n.Line, path, fmt.Sprintf("%s: %v", d.describe(n), err))
		}
	}
	d.validated(v, nil, n.Line, path, before)
	return true
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n.Line, path, fmt.Sprintf("expected a list such as [a, b], found %s", d.describe(n)))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) table(n *yaml.Node, v reflect.Value, path string) {
	list, ok := d.entries(n, path)
	if !ok {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(list)))
	for _, e := range list {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, item, join(path, e.name))
		v.SetMapIndex(reflect.ValueOf(e.name).Convert(v.Type().Key()), item)
	}
}

// scalar reads text, numbers, durations, true and false. It looks at the text alone: what YAML makes of 0123 or no
// has no say, and an inserted value is as good as a written one.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	want := expectation(v.Type())
	if n.Kind != yaml.ScalarNode || (isEmpty(n) && v.Kind() != reflect.String) {
		d.fail(n.Line, path, fmt.Sprintf("expected %s, found %s", want, d.describe(n)))
		return
	}
	if err := setScalar(v, n.Value); err != nil {
		d.fail(n.Line, path, fmt.Sprintf("expected %s, found %s", want, d.describe(n)))
	}
}

func setScalar(v reflect.Value, text string) error {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		length, err := time.ParseDuration(text)
		if err == nil && length < 0 {
			err = strconv.ErrRange
		}
		v.SetInt(int64(length))
		return err
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		v.SetBool(text == "true")
		if text != "true" && text != "false" {
			return strconv.ErrSyntax
		}
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(number)
		return err
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		number, err := strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(number)
		return err
	case reflect.Float32, reflect.Float64:
		number, err := strconv.ParseFloat(text, v.Type().Bits())
		v.SetFloat(number)
		return err
	default:
		return fmt.Errorf("decode into %s: unsupported type", v.Type())
	}
}

// expectation says in words what a value of the type looks like.
func expectation(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration in the units ms, s, m, h (10s, 1h30m)"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

// describe shows a value as the file has it, so that nothing inserted is ever shown.
func (d *decoder) describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys with values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isEmpty(n):
		return "nothing"
	}
	text, inserted := d.written[n]
	if !inserted {
		text = n.Value
	}
	if runes := []rune(text); len(runes) > 40 {
		text = string(runes[:40]) + "…"
	}
	return strconv.Quote(text)
}

// isEmpty tells a key without a value from one with the text null or ~.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 &&
		n.Tag == "!!null"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
