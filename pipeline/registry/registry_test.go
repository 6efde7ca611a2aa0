package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openLog(t *testing.T, dir string) log.Log {
	t.Helper()
	l, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// world is a registry over a log of its own.
type world struct {
	*Registry
	t       *testing.T
	handler http.Handler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	l := openLog(t, t.TempDir())
	r := New(l)
	t.Cleanup(func() {
		if err := errors.Join(r.Close(context.Background()), l.Close()); err != nil {
			t.Error(err)
		}
	})
	return &world{Registry: r, t: t, handler: r.Handler()}
}

// call sends a request and returns status and body.
func (w *world) call(method, path string, body any) (int, string) {
	w.t.Helper()
	var in io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, httptest.NewRequest(method, path, in))
	if got := recorder.Header().Get("Content-Type"); got != mediaType {
		w.t.Errorf("%s %s: Content-Type %q", method, path, got)
	}
	return recorder.Code, strings.TrimSpace(recorder.Body.String())
}

func (w *world) want(method, path string, body any, code int, want string) {
	w.t.Helper()
	gotCode, got := w.call(method, path, body)
	if gotCode != code || got != want {
		w.t.Errorf("%s %s: %d %s, want %d %s", method, path, gotCode, got, code, want)
	}
}

// wantError looks at the code of a refusal.
func (w *world) wantError(method, path string, body any, status, code int) {
	w.t.Helper()
	gotStatus, text := w.call(method, path, body)
	var got struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || gotStatus != status || got.Code != code || got.Message == "" {
		w.t.Errorf("%s %s: %d %s, want %d with %d", method, path, gotStatus, text, status, code)
	}
}

type body map[string]any

func record(fields string) body {
	return body{"schema": `{"type": "record", "name": "R", "fields": [` + fields + `]}`}
}

const (
	fieldA = `{"name": "a", "type": "long"}`
	fieldB = `{"name": "b", "type": ["null", "string"], "default": null}`
	fieldC = `{"name": "c", "type": "string"}`
)

func compact(b body) string { return strings.ReplaceAll(b["schema"].(string), ": ", ":") }

func stored(b body) string { return strings.ReplaceAll(compact(b), ", ", ",") }

func quote(s string) string {
	b, _ := json.Marshal(s) // a string
	return string(b)
}

func TestConfluentsAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := record(fieldA), record(fieldA+", "+fieldB)
	w.want("GET", "/", nil, 200, `{}`)
	w.want("GET", "/subjects", nil, 200, `[]`)
	w.want("GET", "/schemas/types", nil, 200, `["AVRO","PROTOBUF","JSON"]`)
	w.wantError("GET", "/subjects/s/versions", nil, 404, 40401)
	w.want("POST", "/subjects/s/versions", first, 200, `{"id":1}`)
	w.want("POST", "/subjects/s/versions", first, 200, `{"id":1}`)
	w.want("POST", "/subjects/other%2Fname/versions", first, 200, `{"id":1}`)
	w.want("POST", "/subjects/s/versions", second, 200, `{"id":3}`)
	w.want("GET", "/subjects", nil, 200, `["other/name","s"]`)
	w.want("GET", "/subjects?subjectPrefix=o", nil, 200, `["other/name"]`)
	w.want("GET", "/subjects/s/versions", nil, 200, `[1,2]`)
	w.want("GET", "/subjects/s/versions/latest", nil, 200, `{"subject":"s","version":2,"id":3,"schema":`+quote(stored(second))+`}`)
	w.want("GET", "/subjects/s/versions/1/schema", nil, 200, stored(first))
	w.want("GET", "/subjects/s/versions/1/referencedby", nil, 200, `[]`)
	w.wantError("GET", "/subjects/s/versions/9", nil, 404, 40402)
	w.wantError("GET", "/subjects/s/versions/x", nil, 422, 42202)
	w.want("POST", "/subjects/s", second, 200, `{"subject":"s","version":2,"id":3,"schema":`+quote(stored(second))+`}`)
	w.wantError("POST", "/subjects/s", record(fieldC), 404, 40403)
	w.wantError("POST", "/subjects/none", first, 404, 40401)
	w.want("GET", "/schemas/ids/1", nil, 200, `{"schema":`+quote(stored(first))+`}`)
	w.want("GET", "/schemas/ids/3/schema", nil, 200, stored(second))
	w.want("GET", "/schemas/ids/1/subjects", nil, 200, `["other/name","s"]`)
	w.want("GET", "/schemas/ids/1/versions", nil, 200, `[{"subject":"other/name","version":1},{"subject":"s","version":1}]`)
	w.wantError("GET", "/schemas/ids/77", nil, 404, 40403)
	w.wantError("POST", "/subjects/s/versions", body{"schema": "{"}, 422, 42201)
	w.wantError("POST", "/subjects/s/versions", body{"schema": "{}", "schemaType": "THRIFT"}, 422, 42201)
	w.wantError("POST", "/subjects/s/versions", body{"schema": `"string"`, "references": []any{1}}, 422, 42201)
	if code, text := w.call("GET", "/schemas", nil); code != 200 || strings.Count(text, `"version"`) != 3 {
		t.Errorf("GET /schemas: %s", text)
	}
}

func TestCompatibilityOfASubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want("GET", "/config", nil, 200, `{"compatibilityLevel":"BACKWARD"}`)
	w.wantError("GET", "/config/s", nil, 404, 40408)
	w.want("GET", "/config/s?defaultToGlobal=true", nil, 200, `{"compatibilityLevel":"BACKWARD"}`)
	w.call("POST", "/subjects/s/versions", record(fieldA))
	w.wantError("POST", "/subjects/s/versions", record(fieldA+", "+fieldC), 409, 409)
	w.want("POST", "/compatibility/subjects/s/versions/latest", record(fieldA+", "+fieldC), 200, `{"is_compatible":false}`)
	w.want("POST", "/compatibility/subjects/s/versions/1", record(fieldA+", "+fieldB), 200, `{"is_compatible":true}`)
	w.want("POST", "/compatibility/subjects/new/versions", record(fieldC), 200, `{"is_compatible":true}`)
	w.wantError("POST", "/compatibility/subjects/new/versions/latest", record(fieldC), 404, 40401)
	if _, text := w.call("POST", "/compatibility/subjects/s/versions?verbose=true", record(fieldC)); !strings.Contains(text, "the new schema cannot read what the old one wrote") {
		t.Errorf("it says %s", text)
	}
	w.want("PUT", "/config/s", body{"compatibility": "FORWARD"}, 200, `{"compatibility":"FORWARD"}`)
	w.want("POST", "/compatibility/subjects/s/versions/1", record(fieldA+", "+fieldC), 200, `{"is_compatible":true}`)
	w.want("POST", "/compatibility/subjects/s/versions/1", record(fieldC), 200, `{"is_compatible":false}`)
	w.want("PUT", "/config/s", body{"compatibility": "FULL"}, 200, `{"compatibility":"FULL"}`)
	w.want("POST", "/compatibility/subjects/s/versions/1", record(fieldA+", "+fieldC), 200, `{"is_compatible":false}`)
	w.want("PUT", "/config/s", body{"compatibility": "NONE"}, 200, `{"compatibility":"NONE"}`)
	w.call("POST", "/subjects/s/versions", record(fieldC))
	w.want("GET", "/subjects/s/versions", nil, 200, `[1,2]`)
	w.want("PUT", "/config/s", body{"compatibility": "BACKWARD_TRANSITIVE"}, 200, `{"compatibility":"BACKWARD_TRANSITIVE"}`)
	w.want("POST", "/compatibility/subjects/s/versions", record(fieldC+", "+fieldB), 200, `{"is_compatible":false}`) // with the first
	w.want("PUT", "/config/s", body{"compatibility": "BACKWARD"}, 200, `{"compatibility":"BACKWARD"}`)
	w.want("POST", "/compatibility/subjects/s/versions", record(fieldC+", "+fieldB), 200, `{"is_compatible":true}`)
	w.want("DELETE", "/config/s", nil, 200, `{"compatibilityLevel":"BACKWARD"}`)
	w.wantError("PUT", "/config", body{"compatibility": "SOMETIMES"}, 422, 42203)
	w.want("PUT", "/config", body{"compatibility": "NONE"}, 200, `{"compatibility":"NONE"}`)
	w.want("GET", "/config/s?defaultToGlobal=true", nil, 200, `{"compatibilityLevel":"NONE"}`)
}

func TestModeKeepsASubjectAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want("GET", "/mode", nil, 200, `{"mode":"READWRITE"}`)
	w.call("POST", "/subjects/s/versions", record(fieldA))
	w.want("PUT", "/mode/s", body{"mode": "READONLY"}, 200, `{"mode":"READONLY"}`)
	w.wantError("POST", "/subjects/s/versions", record(fieldA+", "+fieldB), 422, 42205)
	w.want("POST", "/subjects/s/versions", record(fieldA), 200, `{"id":1}`)
	w.wantError("DELETE", "/subjects/s", nil, 422, 42205)
	w.want("DELETE", "/mode/s", nil, 200, `{"mode":"READONLY"}`)
	w.want("DELETE", "/subjects/s", nil, 200, `[1]`)
	w.wantError("PUT", "/mode", body{"mode": "IMPORT"}, 422, 42204)
}

func TestDeletionIsSoftBeforeItIsForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call("POST", "/subjects/s/versions", record(fieldA))
	w.call("POST", "/subjects/s/versions", record(fieldA+", "+fieldB))
	w.wantError("DELETE", "/subjects/s?permanent=true", nil, 404, 40405)
	w.want("DELETE", "/subjects/s/versions/1", nil, 200, `1`)
	w.wantError("GET", "/subjects/s/versions/1", nil, 404, 40402)
	w.want("GET", "/subjects/s/versions", nil, 200, `[2]`)
	w.want("GET", "/subjects/s/versions?deleted=true", nil, 200, `[1,2]`)
	w.want("DELETE", "/subjects/s", nil, 200, `[2]`)
	w.wantError("DELETE", "/subjects/s", nil, 404, 40404)
	w.want("GET", "/subjects", nil, 200, `[]`)
	w.want("GET", "/subjects?deleted=true", nil, 200, `["s"]`)
	w.want("GET", "/schemas/ids/1/schema", nil, 200, stored(record(fieldA))) // records name it still
	w.want("POST", "/subjects/s/versions", record(fieldA), 200, `{"id":1}`)
	w.want("GET", "/subjects/s/versions", nil, 200, `[3]`)
	w.want("DELETE", "/subjects/s/versions/3", nil, 200, `3`)
	w.want("DELETE", "/subjects/s?permanent=true", nil, 200, `[1,2,3]`)
	w.want("GET", "/subjects?deleted=true", nil, 200, `[]`)
}

const proto = `syntax = "proto3";
package shop;
message Order { optional int64 id = 1; string name = 2; message Line { int32 n = 1; } repeated Line lines = 3; %s }
`

func alone(kind, text string) whole { return whole{Schema: Schema{Type: kind, Text: text}} }

func TestProtobufKeepsTheFormOfItsFields(t *testing.T) {
	t.Parallel()
	for extra, ok := range map[string]bool{"": true, "bool paid = 4;": true, "optional double total = 9; /* a comment */": true} {
		if err := readsProto(alone("PROTOBUF", fmt.Sprintf(proto, extra)), alone("PROTOBUF", fmt.Sprintf(proto, ""))); (err == nil) != ok {
			t.Errorf("%q: %v", extra, err)
		}
	}
	old := fmt.Sprintf(proto, "")
	for from, want := range map[string]string{
		"optional int64 id = 1":   "",
		"optional uint64 id = 1":  "",
		"optional string id = 1":  "field 1 of shop.Order was int64 id and is string id",
		"repeated int64 id = 1":   "field 1 of shop.Order was int64 id",
		"optional int64 id2 = 1":  "",
		"optional sint64 id = 1":  "field 1 of shop.Order",
		"optional int64 id = 111": "",
	} {
		err := readsProto(alone("PROTOBUF", strings.Replace(old, "optional int64 id = 1", from, 1)), alone("PROTOBUF", old))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", from, err)
		}
	}
	if err := readsProto(alone("PROTOBUF", strings.Replace(old, "Order", "Other", 1)), alone("PROTOBUF", old)); err == nil {
		t.Error("another first message passed")
	}
	w := newWorld(t)
	w.want("POST", "/subjects/p/versions", body{"schema": old, "schemaType": "PROTOBUF"}, 200, `{"id":1}`)
	w.wantError("POST", "/subjects/p/versions", body{"schema": strings.Replace(old, "int64 id", "string id", 1), "schemaType": "PROTOBUF"}, 409, 409)
	w.wantError("POST", "/subjects/p/versions", body{"schema": "message {", "schemaType": "PROTOBUF"}, 422, 42201)
	w.wantError("POST", "/subjects/p/versions", record(fieldA), 409, 409)
	if _, text := w.call("GET", "/schemas/ids/1", nil); !strings.Contains(text, `"schemaType":"PROTOBUF"`) {
		t.Errorf("it shows %s", text)
	}
}

// Two registries over one log stand for two processes.
func TestProcessesAgreeOnEveryID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir)
	a, b := New(l), New(l)
	var work sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]map[int32]bool{}
	for i := range 40 {
		r := a
		if i%2 == 1 {
			r = b
		}
		work.Go(func() {
			name := fmt.Sprint("n", i/4)
			s := Schema{Type: "AVRO", Text: `{"type":"record","name":"` + name + `","fields":[]}`}
			id, err := r.Register(t.Context(), "subject-"+fmt.Sprint(i%4), s)
			if err != nil && !isIncompatible(err) {
				t.Error(err)
			}
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[name] == nil {
				ids[name] = map[int32]bool{}
			}
			ids[name][id] = true
		})
	}
	work.Wait()
	seen := map[int32]string{}
	for name, list := range ids {
		if len(list) != 1 {
			t.Errorf("schema %s has the ids %v", name, list)
		}
		for id := range list {
			if other := seen[id]; other != "" {
				t.Errorf("%s and %s share id %d", name, other, id)
			}
			seen[id] = name
		}
	}
	if err := errors.Join(a.Close(t.Context()), b.Close(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, dir)
	again := New(l)
	for id, name := range seen {
		err := again.view(t.Context(), func(s *state) error {
			if got := s.schemas[id].Text; !strings.Contains(got, `"`+name+`"`) {
				t.Errorf("after a restart id %d is %s, want %s", id, got, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(again.Close(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
}

func isIncompatible(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Code == incompatible
}

func TestClientRegistersElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		user, password, _ := q.BasicAuth()
		if user != "ada" || password != "secret" {
			http.Error(rw, `{"message":"no"}`, http.StatusUnauthorized)
			return
		}
		w.handler.ServeHTTP(rw, q)
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &Client{URL: server.URL + "/", User: "ada", Password: "secret", HTTP: &http.Client{Transport: transport}}
	for _, s := range []Schema{{Type: "AVRO", Text: `"string"`}, {Type: "PROTOBUF", Text: fmt.Sprintf(proto, "")}} {
		id, err := c.Register(t.Context(), "a topic/"+s.Type, s)
		again, errAgain := c.Register(t.Context(), "a topic/"+s.Type, s)
		if err != nil || errAgain != nil || id != again || id <= 0 {
			t.Errorf("%d %v, %d %v", id, err, again, errAgain)
		}
	}
	if _, err := c.Register(t.Context(), "a topic/AVRO", Schema{Type: "AVRO", Text: `"long"`}); !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "incompatible") {
		t.Errorf("got %v", err)
	}
	c.Password = "wrong"
	if _, err := c.Register(t.Context(), "s", Schema{Type: "AVRO", Text: `"string"`}); !errors.Is(err, connectors.ErrFatal) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	c.URL = "http://127.0.0.1:1"
	if _, err := c.Register(t.Context(), "s", Schema{Type: "AVRO", Text: `"string"`}); err == nil || errors.Is(err, connectors.ErrFatal) {
		t.Errorf("got %v", err)
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add(`"string"`, uint(0))
	f.Add(`{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"]}]}`, uint(0))
	f.Add(fmt.Sprintf(proto, "oneof o { int32 x = 7; }"), uint(1))
	f.Add(`{"type": "object", "properties": {"a": {"oneOf": [{"type": "null"}, {"$ref": "#"}]}, "b": {"enum": [1, "x"]}}, "additionalProperties": false}`, uint(2))
	f.Add(`{"allOf": [{"if": true, "then": {"not": {"pattern": "(?=a)"}}}], "patternProperties": {"^a": {"multipleOf": 3}}, "items": [{"maximum": 2}]}`, uint(2))
	f.Fuzz(func(t *testing.T, text string, kind uint) {
		once, err := canonical(alone(languages[kind%3], text))
		if err != nil {
			return
		}
		twice, err := canonical(whole{Schema: once})
		if err != nil || once.key() != twice.key() {
			t.Fatalf("%q became %q, %v", once.Text, twice.Text, err)
		}
		if problems := compare("FULL", whole{Schema: once}, whole{Schema: once}); len(problems) > 0 {
			t.Fatalf("%q is incompatible with itself: %v", once.Text, problems)
		}
		if once.Type == "JSON" { // with every proof that an equal text spares; it may not be known, but it ends
			_ = readsJSON(whole{Schema: once}, alone("JSON", `{"anyOf": [`+once.Text+`, false]}`))
		}
	})
}
