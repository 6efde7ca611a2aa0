package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const person = `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}`

func jsonBody(schema string, references ...Reference) body {
	return body{"schema": schema, "schemaType": "JSON", "references": references}
}

func TestJSONSchemaIsStoredAndShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The text that came first is kept, without space; the order of members makes no other schema.
	kept := strings.NewReplacer(": ", ":", ", ", ",").Replace(person)
	other := `{"required":["name"],"type":"object","properties":{"age":{"type":"integer"},"name":{"type":"string"}},"$schema":"http://json-schema.org/draft-07/schema#"}`
	w.want("POST", "/subjects/person/versions", jsonBody(person), 200, `{"id":1}`)
	for _, same := range []string{person, kept, other} {
		w.want("POST", "/subjects/person/versions", jsonBody(same), 200, `{"id":1}`)
	}
	w.want("POST", "/subjects/people/versions", jsonBody(other), 200, `{"id":1}`)
	shown := `{"subject":"person","version":1,"id":1,"schemaType":"JSON","schema":` + quote(kept) + `}`
	w.want("GET", "/subjects/person/versions/latest", nil, 200, shown)
	w.want("POST", "/subjects/person", jsonBody(other), 200, shown)
	w.want("GET", "/schemas?latestOnly=true", nil, 200, `[`+strings.Replace(shown, "person", "people", 1)+`,`+shown+`]`)
	w.want("GET", "/schemas/ids/1", nil, 200, `{"schema":`+quote(kept)+`,"schemaType":"JSON"}`)
	w.want("GET", "/schemas/ids/1/schema", nil, 200, kept)
	w.wantProblem("POST", "/subjects/person/versions", record(fieldA), 409, 409, "one is AVRO, the other JSON")
	if code, text := w.call("POST", "/subjects/other/versions", jsonBody(`{"type":"object"}`)); code != 200 || text == `{"id":1}` {
		t.Errorf("another schema: %d %s", code, text)
	}
}

func TestJSONSchemaThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for schema, says := range map[string]string{
		`{`:                 "not a valid JSON Schema",
		`[]`:                "a schema is an object",
		`{} {}`:             "not a valid JSON Schema",
		`{"type": "text"}`:  "type",
		`{"required": "a"}`: "required",
		`{"$schema": "http://json-schema.org/draft-04/schema#"}`: "draft/2020-12",
		`{"$ref": "#/definitions/none"}`:                         "none",
		`{"$ref": "https://example.com/else.json"}`:              "no reference has that name",
		`{"$ref": "file:///etc/hostname"}`:                       "no reference has that name",
		`{"pattern": "(a"}`:                                      "pattern",
		`{"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{"type": "string"}]}`: "items",
	} {
		w.wantProblem("POST", "/subjects/s/versions", jsonBody(schema), 422, 42201, says)
	}
	w.wantProblem("POST", "/subjects/s/versions", jsonBody(`{"allOf": [`+strings.Repeat(`{},`, maxJSONParse)+`true]}`), 422, 42201, "split it")
	for i, schema := range []string{`true`, `{}`, `{"pattern": "^(?!a)\\/"}`, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"a": {"$anchor": "x"}}, "$ref": "#x"}`} {
		if code, text := w.call("POST", fmt.Sprint("/subjects/fine", i, "/versions"), jsonBody(schema)); code != 200 {
			t.Errorf("%s: %s", schema, text)
		}
	}
}

// object makes a schema of an object with a property id and more.
func object(more, rest string) string {
	return `{"type": "object", "properties": {"id": {"type": "integer"}` + more + `}` + rest + `}`
}

const (
	closed = `, "additionalProperties": false`
	note   = `, "note": {"type": "string"}`
)

// Each case is what becomes of a schema, and what stands against readers of either side: nothing where it is empty.
var jsonCases = map[string]struct{ old, fresh, backward, forward string }{
	"a property in an open model":                  {object("", ""), object(note, ""), "#/properties/note: the type is string for the reader and any for the writer", ""},
	"a property in a closed model":                 {object("", closed), object(note, closed), "", "#/properties/note: nothing is valid for the reader"},
	"a property of any type in an open model":      {object("", ""), object(`, "note": {}`, ""), "", ""},
	"a property gone from an open model":           {object(note, ""), object("", ""), "", "#/properties/note: the type"},
	"a property where others are of its type":      {object("", `, "additionalProperties": {"type": "string"}`), object(note, `, "additionalProperties": {"type": "string"}`), "", ""},
	"an open model is closed":                      {object("", ""), object("", closed), "properties that neither schema names", ""},
	"others get a type":                            {object("", ""), object("", `, "additionalProperties": {"type": "string"}`), "#/additionalProperties: the type is string", ""},
	"a property becomes required":                  {object("", ""), object("", `, "required": ["id"]`), `the reader requires the property "id"`, ""},
	"a new required property":                      {object("", closed), object(note, closed+`, "required": ["note"]`), `the reader requires the property "note"`, "#/properties/note: nothing"},
	"a type widens":                                {of(`{"type": "integer"}`), of(`{"type": "number"}`), "", "the type is integer for the reader and number for the writer"},
	"a type gets another":                          {of(`{"type": "string"}`), of(`{"type": ["string", "null"]}`), "", "the type is string for the reader and null or string for the writer"},
	"a type changes":                               {of(`{"type": "string"}`), of(`{"type": "boolean"}`), "#/properties/v: the type", "#/properties/v: the type"},
	"a type gets lost":                             {of(`{"type": "string"}`), of(`{}`), "", "the type is string for the reader and any"},
	"an enumeration grows":                         {of(`{"enum": ["a", "b"]}`), of(`{"enum": ["a", "b", "c"]}`), "", "the value c of an enumeration"},
	"an enumeration opens":                         {of(`{"enum": ["a", 1]}`), of(`{"type": ["string", "integer"]}`), "", "only listed values"},
	"a constant joins a list":                      {of(`{"const": null}`), of(`{"enum": [null, 1]}`), "", "the value 1 of an enumeration"},
	"an annotation changes":                        {of(`{"type": "string", "title": "a"}`), of(`{"type": "string", "description": "b", "default": "c"}`), "", ""},
	"bounds of numbers":                            {of(`{"maximum": 9, "exclusiveMinimum": 0}`), of(`{"exclusiveMaximum": 9.5, "minimum": 0}`), "", "maximum 9"},
	"multiples":                                    {of(`{"multipleOf": 6}`), of(`{"multipleOf": 1.5}`), "", "multipleOf 6"},
	"bounds that are not of the type":              {of(`{"type": "string"}`), of(`{"type": "string", "maximum": 3, "minItems": 3, "required": ["x"]}`), "", ""},
	"lengths":                                      {of(`{"minLength": 2, "maxLength": 3}`), of(`{"minLength": 1, "maxLength": 4}`), "", "minLength 2"},
	"a pattern":                                    {of(`{"type": "string"}`), of(`{"type": "string", "pattern": "^a"}`), `the reader has the pattern "^a"`, ""},
	"a format":                                     {of(`{"format": "date"}`), of(`{"format": "date-time"}`), `the format "date-time"`, `the format "date"`},
	"items":                                        {of(`{"items": {"type": "integer"}, "minItems": 1}`), of(`{"items": {"type": "number"}}`), "", "#/properties/v/items: the type"},
	"places of an array":                           {of(`{"items": [{"type": "integer"}], "additionalItems": false}`), of(`{"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": false}`), "", "nothing is valid"},
	"uniqueItems":                                  {of(`{"uniqueItems": true}`), of(`{}`), "", "uniqueItems"},
	"null or a text, said in two ways":             {of(`{"type": ["null", "string"]}`), of(`{"oneOf": [{"type": "null"}, {"type": "string"}]}`), "could not be judged", ""},
	"an alternative more":                          {of(`{"oneOf": [{"type": "null"}, {"type": "string"}]}`), of(`{"oneOf": [{"type": "string"}, {"type": "null"}, {"type": "boolean"}]}`), "", "could not be judged"},
	"an alternative wider":                         {of(`{"anyOf": [{"type": "null"}, {"type": "integer"}]}`), of(`{"anyOf": [{"type": "null"}, {"type": "number"}]}`), "", "could not be judged"},
	"what was plain is an alternative":             {of(`{"type": "string"}`), of(`{"anyOf": [{"type": "null"}, {"type": "string"}]}`), "", "the type is string for the reader and null"},
	"one of texts that are not apart":              {of(`{"oneOf": [{"maxLength": 3}, {"pattern": "a"}]}`), of(`{"oneOf": [{"maxLength": 3}, {"pattern": "a"}, {"pattern": "b"}]}`), "could not be judged", "could not be judged"},
	"all of two":                                   {of(`{"allOf": [{"type": "string"}, {"maxLength": 3}]}`), of(`{"type": "string", "allOf": [{"maxLength": 4}]}`), "", "maxLength 3"},
	"all of two with alternatives":                 {of(`{"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"maxLength": 3}]}`), of(`{"type": ["string", "null"]}`), "", "could not be judged"},
	"a pattern of names":                           {`{"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": false}`, `{"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": false}`, "", "#/patternProperties: the type"},
	"a name that a pattern takes in":               {`{"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": false}`, `{"properties": {"n_1": {"type": "string"}}, "patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": false}`, "#/properties/n_1: the type is string", ""},
	"not":                                          {of(`{"not": {"type": "string"}}`), of(`{"not": {"type": "string", "minLength": 1}}`), "", "not could not be judged"},
	"if":                                           {of(`{"if": {"type": "string"}, "then": {"minLength": 3}}`), of(`{"if": {"type": "string"}, "then": {"minLength": 2}}`), "", "if could not be judged"},
	"a dependency":                                 {of(`{}`), of(`{"dependencies": {"a": ["b"]}}`), "a dependency of properties could not be judged", ""},
	"a schema within itself":                       {`{"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}}`, `{"properties": {"next": {"$ref": "#"}, "v": {"type": "number"}}}`, "", "the type is integer"},
	"a definition takes the place of its text":     {of(`{"type": "object", "required": ["a"]}`), `{"definitions": {"d": {"type": "object", "required": ["a"]}}, "properties": {"v": {"$ref": "#/definitions/d"}}}`, "", ""},
	"the newer draft":                              {`{"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}`, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}`, "", ""},
	"what the newer draft says beside a reference": {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"d": {"type": "string"}}, "$ref": "#/$defs/d", "maxLength": 3}`, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"d": {"type": "string"}}, "$ref": "#/$defs/d"}`, "", "maxLength 3"},
	"unevaluatedProperties":                        {`{"$schema": "https://json-schema.org/draft/2020-12/schema"}`, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "unevaluatedProperties": false}`, "unevaluatedProperties could not be judged", ""},
	"dependentRequired":                            {`{"$schema": "https://json-schema.org/draft/2020-12/schema"}`, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "dependentRequired": {"a": ["b"]}}`, "could not be judged", ""},
	"$dynamicRef":                                  {`{"$schema": "https://json-schema.org/draft/2020-12/schema"}`, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$dynamicAnchor": "n", "properties": {"c": {"$dynamicRef": "#n"}}}`, "$dynamicRef could not be judged", ""},
	"contains":                                     {of(`{"contains": {"type": "string"}}`), of(`{"contains": {"type": "string"}, "maxItems": 5}`), "maxItems 5", ""},
	"names of properties":                          {of(`{"propertyNames": {"maxLength": 3}}`), of(`{"propertyNames": {"type": "string", "maxLength": 4}}`), "", "maxLength 3"},
	"false and true":                               {of(`false`), of(`true`), "", "nothing is valid"},
}

func of(text string) string { return `{"properties": {"v": ` + text + `}}` }

func TestCompatibilityOfJSONSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range jsonCases {
		for _, way := range []struct{ name, reader, writer, want string }{{"backward", c.fresh, c.old, c.backward}, {"forward", c.old, c.fresh, c.forward}} {
			err := readsJSON(alone("JSON", way.reader), alone("JSON", way.writer))
			if way.want == "" && err != nil || way.want != "" && (err == nil || !strings.Contains(err.Error(), way.want)) {
				t.Errorf("%s, %s: %v, want %q", name, way.name, err, way.want)
			}
		}
	}
}

// Whatever is proven of any two of the schemas holds for documents: what the writer's takes, the reader's takes.
func TestWhatIsProvenHoldsForDocuments(t *testing.T) {
	t.Parallel()
	var values, documents []any
	for _, text := range []string{`null`, `true`, `0`, `1`, `-3`, `6`, `9`, `9.25`, `100`, `""`, `"a"`, `"b"`, `"c"`, `"ab"`, `"abc"`, `"abcd"`, `"2024-02-30"`, `"2024-01-02"`,
		`[]`, `["a"]`, `["a", 1]`, `["a", "a"]`, `[1, 1]`, `[1, "a"]`, `[1, 2, 3, 4, 5, 6]`, `[null, 1.5]`, `{}`, `{"a": 1}`, `{"a": 1, "b": null}`, `{"b": 1}`,
		`{"id": 1}`, `{"id": "x"}`, `{"note": "x"}`, `{"note": 1}`, `{"id": 1, "note": "x"}`, `{"id": 1, "other": true}`, `{"n_1": 1}`, `{"n_1": "x"}`, `{"n_2": 1.5}`, `{"long name": 1}`} {
		doc, err := readDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, doc)
	}
	for _, v := range values {
		documents = append(documents, v, map[string]any{"v": v}, map[string]any{"next": map[string]any{"v": v}})
	}
	type compiled struct {
		text string
		*jsonschema.Schema
		takes []bool
	}
	var schemas []compiled
	for _, c := range jsonCases {
		for _, text := range []string{c.old, c.fresh} {
			s, _, err := parseJSON(alone("JSON", text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			takes := make([]bool, len(documents))
			for i, d := range documents {
				takes[i] = s.Validate(d) == nil
			}
			schemas = append(schemas, compiled{text, s, takes})
		}
	}
	proven := 0
	for _, r := range schemas {
		for _, w := range schemas {
			if problems := newJSONProof(true).within(r.Schema, []*jsonschema.Schema{w.Schema}, "#", 0); len(problems) > 0 {
				continue
			}
			proven++
			for i := range documents {
				if w.takes[i] && !r.takes[i] {
					t.Errorf("%v is valid for %s and not for %s, which was proven to take it", documents[i], w.text, r.text)
				}
			}
		}
	}
	if proven < 2*len(schemas) {
		t.Errorf("%d of %d pairs are proven", proven, len(schemas)*len(schemas))
	}
}

func readDocument(text string) (any, error) { return jsonschema.UnmarshalJSON(strings.NewReader(text)) }

func TestJSONSchemasThatAreTooLargeToJudgeAreRefused(t *testing.T) {
	t.Parallel()
	many := `{"allOf": [` + strings.Repeat(`{},`, 600) + `{"type": "string"}]}`
	deep := strings.Repeat(`{"items": `, 100) + `{"type": "string"}` + strings.Repeat(`}`, 100)
	for _, schema := range []string{many, deep} {
		if err := readsJSON(alone("JSON", schema), alone("JSON", strings.Replace(schema, "string", "null", 1))); err == nil || !strings.Contains(err.Error(), "so large a schema could not be judged") {
			t.Errorf("got %v", err)
		}
		if err := readsJSON(alone("JSON", schema), alone("JSON", schema)); err != nil {
			t.Error(err)
		}
	}
}

func TestJSONSubjectKeepsItsCompatibility(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want("POST", "/subjects/s/versions", jsonBody(object("", closed)), 200, `{"id":1}`)
	w.want("POST", "/subjects/s/versions", jsonBody(object(note, closed)), 200, `{"id":2}`)
	w.wantProblem("POST", "/subjects/s/versions", jsonBody(object(note, `, "required": ["note"]`)), 409, 409, `requires the property \"note\"`)
	w.wantProblem("POST", "/subjects/s/versions", jsonBody(object(note, closed+`, "dependencies": {"id": ["note"]}`)), 409, 409, "could not be judged")
	w.want("PUT", "/config/s", body{"compatibility": "FORWARD"}, 200, `{"compatibility":"FORWARD"}`)
	w.want("POST", "/compatibility/subjects/s/versions/latest", jsonBody(object("", closed)), 200, `{"is_compatible":true}`)
	w.want("POST", "/compatibility/subjects/s/versions/1", jsonBody(object(note, closed)), 200, `{"is_compatible":false}`)
	w.want("PUT", "/config/s", body{"compatibility": "NONE"}, 200, `{"compatibility":"NONE"}`)
	w.want("POST", "/subjects/s/versions", jsonBody(`{"type": "string"}`), 200, `{"id":5}`)
}

func TestJSONReferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call("PUT", "/config/zip", body{"compatibility": "NONE"})
	w.want("POST", "/subjects/zip/versions", jsonBody(`{"$id": "https://example.com/zip.json", "type": "string"}`), 200, `{"id":2}`)
	w.want("POST", "/subjects/zip/versions", jsonBody(`{"type": "integer"}`), 200, `{"id":3}`)
	w.want("POST", "/subjects/zip/versions", jsonBody(`{"type": ["integer", "string"]}`), 200, `{"id":4}`)
	const home = `{"$id": "https://example.com/home.json", "properties": {"zip": {"$ref": "zip.json"}}}`
	w.wantProblem("POST", "/subjects/home/versions", jsonBody(home), 422, 42201, "no reference has that name")
	w.want("POST", "/subjects/home/versions", jsonBody(home, to("zip.json", "zip", 1)), 200, `{"id":5}`)
	w.want("POST", "/subjects/home/versions", jsonBody(home, to("zip.json", "zip", 1)), 200, `{"id":5}`)
	w.wantProblem("POST", "/subjects/home/versions", jsonBody(home, to("zip.json", "zip", 2)), 409, 409, "#/properties/zip: the type is integer for the reader and string for the writer")
	w.want("POST", "/compatibility/subjects/home/versions", jsonBody(home, to("zip.json", "zip", 3)), 200, `{"is_compatible":true}`)
	w.want("GET", "/subjects/zip/versions/1/referencedby", nil, 200, `[5]`)
	w.wantError("DELETE", "/subjects/zip/versions/1", nil, 422, 42206)
	for i, c := range []struct{ schema, name string }{
		{`{"$ref": "zip.json"}`, "zip.json"},
		{`{"$ref": "./zip.json#"}`, "zip.json"},
		{`{"$ref": "https://example.com/zip.json"}`, "https://example.com/zip.json"},
		{`{"$ref": "https://example.com/zip.json"}`, "zip"},
	} {
		if code, text := w.call("POST", fmt.Sprint("/subjects/way", i, "/versions"), jsonBody(c.schema, to(c.name, "zip", 1))); code != 200 {
			t.Errorf("%s: %s", c.schema, text)
		}
	}
	// Through a schema that is referred to itself.
	if code, text := w.call("POST", "/subjects/person/versions", jsonBody(`{"properties": {"home": {"$ref": "home.json"}}}`, to("home.json", "home", 1))); code != 200 {
		t.Error(text)
	}
}
