package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// jsonBase is where a JSON Schema without an $id stands, so that what it refers to has an absolute address.
const jsonBase = "registry:///"

// maxJSONParse bounds the schemas inside of a schema and of each that it refers to: the time to compile them grows with the
// square of their number.
const maxJSONParse = 10000

// jsonDrafts are the drafts that schemas can be in, by what $schema says without its last "#"; none is draft-07, as
// Confluent's registry has it.
var jsonDrafts = []string{"http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2020-12/schema"}

// readJSON reads a schema's text; numbers stay as they are written.
func readJSON(text string) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if parts(doc) > maxJSONParse {
		return nil, fmt.Errorf("it has more than %d schemas in it: split it, and refer to the parts", maxJSONParse)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		if _, ok := doc.(bool); !ok {
			return nil, errors.New("a schema is an object, true or false")
		}
		return doc, nil
	}
	if draft, ok := object["$schema"]; ok {
		if name, _ := draft.(string); !slices.Contains(jsonDrafts, strings.TrimSuffix(name, "#")) {
			return nil, fmt.Errorf("$schema is none of %s", strings.Join(jsonDrafts, ", "))
		}
	}
	return doc, nil
}

// parts counts what may be a schema in a document.
func parts(doc any) int {
	n := 0
	switch doc := doc.(type) {
	case bool:
		return 1
	case map[string]any:
		n = 1
		for _, v := range doc {
			n += parts(v)
		}
	case []any:
		for _, v := range doc {
			n += parts(v)
		}
	}
	return n
}

// parseJSON compiles a JSON Schema with those that its references name. Nothing is fetched from elsewhere. It says too
// whether values can be validated with it: not if there are patterns that Go does not know.
func parseJSON(w whole) (schema *jsonschema.Schema, validates bool, err error) {
	doc, err := readJSON(w.Text)
	if err != nil {
		return nil, false, err
	}
	docs := jsonDocs{names: map[string]any{}, bases: []string{jsonBase}}
	docs.addID(doc)
	for _, i := range w.imports {
		doc, err := readJSON(i.Text)
		if err != nil {
			return nil, false, fmt.Errorf("reference %q: %w", i.name, err)
		}
		docs.names[i.name] = doc
		if id := docs.addID(doc); id != "" && docs.names[id] == nil {
			docs.names[id] = doc
		}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseLoader(docs)
	validates = true
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		re, err := jsonPattern(text)
		if _, ok := re.(opaque); ok {
			validates = false
		}
		return re, err
	})
	const at = jsonBase + "-"
	if err := c.AddResource(at, doc); err != nil {
		return nil, false, err
	}
	if schema, err = c.Compile(at); err != nil {
		return nil, false, errors.New(strings.ReplaceAll(err.Error(), jsonBase, ""))
	}
	return schema, validates, nil
}

// jsonDocs finds what $ref asks for among the references of a schema: by their names, as they stand or from the place of a
// schema that refers, and by their own $id.
type jsonDocs struct {
	names map[string]any
	bases []string // folders of the documents
}

// addID takes in where a document says that it stands.
func (d *jsonDocs) addID(doc any) string {
	object, _ := doc.(map[string]any)
	id, _ := object["$id"].(string)
	if at, err := url.Parse(id); err != nil || !at.IsAbs() {
		return ""
	}
	if folder := id[:strings.LastIndex(id, "/")+1]; folder != "" {
		d.bases = append(d.bases, folder)
	}
	return strings.TrimSuffix(id, "#")
}

// Load is what the compiler asks.
func (d jsonDocs) Load(at string) (any, error) {
	if doc, ok := d.names[at]; ok {
		return doc, nil
	}
	for _, base := range d.bases {
		if name, ok := strings.CutPrefix(at, base); ok {
			if doc, ok := d.names[name]; ok {
				return doc, nil
			}
		}
	}
	return nil, errors.New("no reference has that name")
}

// opaque is a pattern in ECMA's language that Go's has not. It is compared by its text only.
type opaque string

func (o opaque) String() string          { return string(o) }
func (o opaque) MatchString(string) bool { return false }

// jsonPattern reads a regular expression. Look-around and escapes that Go does not know are no errors.
func jsonPattern(text string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(text)
	var bad *syntax.Error
	if errors.As(err, &bad) && (bad.Code == syntax.ErrInvalidPerlOp || bad.Code == syntax.ErrInvalidEscape || bad.Code == syntax.ErrInvalidNamedCapture || bad.Code == syntax.ErrInvalidRepeatSize) {
		return opaque(text), nil
	}
	if err != nil {
		return nil, err
	}
	return re, nil
}

// canonicalJSON takes off space. The order of members stays, since programs are made of it.
func canonicalJSON(text string) (string, error) {
	var b bytes.Buffer
	err := json.Compact(&b, []byte(text))
	return b.String(), err
}

// sortedJSON is the identity of a JSON Schema: the order of members makes no difference.
func sortedJSON(text string) string {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return text
	}
	sorted, err := json.Marshal(doc)
	if err != nil {
		return text
	}
	return string(sorted)
}
