package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	address = `{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"zip","type":"string"}]}`
	// numbered cannot read what address wrote.
	numbered = `{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"zip","type":"long"}]}`
	customer = `{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"home","type":"Address"}]}`
	order    = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"by","type":"Customer"},{"name":"to","type":"shop.Address"}]}`
)

func to(name, subject string, version int) Reference { return Reference{name, subject, version} }

func with(schema string, references ...Reference) body {
	return body{"schema": schema, "references": references}
}

func proto3(schema string, references ...Reference) body {
	return body{"schema": "syntax = \"proto3\"; package shop; " + schema, "schemaType": "PROTOBUF", "references": references}
}

// wantProblem looks at the code of a refusal and at what it says.
func (w *world) wantProblem(method, path string, body any, status, code int, says ...string) {
	w.t.Helper()
	w.wantError(method, path, body, status, code)
	_, text := w.call(method, path, body)
	for _, s := range says {
		if !strings.Contains(text, s) {
			w.t.Errorf("%s %s: %s, want %q in it", method, path, text, s)
		}
	}
}

func TestAvroReferencesAreStoredAndShown(t *testing.T) {
	t.Parallel()
	l := openLog(t, t.TempDir())
	first, second := New(l), New(l)
	w := &world{Registry: first, t: t, handler: first.Handler()}
	w.want("POST", "/subjects/address/versions", with(address), 200, `{"id":1}`)
	w.want("POST", "/subjects/customer/versions", with(customer, to("shop.Address", "address", -1)), 200, `{"id":2}`)
	w.want("POST", "/subjects/customer/versions", with(customer, to("shop.Address", "address", 1)), 200, `{"id":2}`)
	w.want("POST", "/subjects/order/versions", with(order, to("shop.Customer", "customer", 1), to("shop.Address", "address", 1)), 200, `{"id":3}`)
	w.want("POST", "/subjects/order/versions", with(order, to("shop.Address", "address", 1), to("shop.Customer", "customer", 1)), 200, `{"id":3}`)
	// Whoever asks, after a restart too, gets the references.
	for _, r := range []*Registry{first, second} {
		w := &world{Registry: r, t: t, handler: r.Handler()}
		const reference = `"references":[{"name":"shop.Address","subject":"address","version":1}],`
		shown := `{"subject":"customer","version":1,"id":2,` + reference + `"schema":` + quote(customer) + `}`
		w.want("GET", "/subjects/customer/versions/1", nil, 200, shown)
		w.want("POST", "/subjects/customer", with(customer, to("shop.Address", "address", 1)), 200, shown)
		w.want("GET", "/schemas/ids/2", nil, 200, `{`+reference+`"schema":`+quote(customer)+`}`)
		w.want("GET", "/schemas/ids/1", nil, 200, `{"schema":`+quote(address)+`}`)
		w.want("GET", "/subjects/customer/versions/1/schema", nil, 200, customer)
		w.want("GET", "/subjects/address/versions/1/referencedby", nil, 200, `[2,3]`)
		w.want("GET", "/subjects/customer/versions/latest/referencedby", nil, 200, `[3]`)
		w.want("GET", "/subjects/order/versions/1/referencedby", nil, 200, `[]`)
		w.wantError("GET", "/subjects/none/versions/1/referencedby", nil, 404, 40401)
		w.wantError("GET", "/subjects/order/versions/7/referencedby", nil, 404, 40402)
		if text := mustCall(w, "/schemas"); strings.Count(text, reference) != 1 || strings.Count(text, `"references"`) != 2 {
			t.Errorf("GET /schemas: %s", text)
		}
	}
	if err := errors.Join(first.Close(t.Context()), second.Close(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
}

func mustCall(w *world, path string) string {
	code, text := w.call("GET", path, nil)
	if code != 200 {
		w.t.Errorf("GET %s: %d %s", path, code, text)
	}
	return text
}

func TestReferencesThatLeadNowhereAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call("POST", "/subjects/address/versions", with(address))
	w.call("PUT", "/config/address", body{"compatibility": "NONE"})
	w.want("POST", "/subjects/address/versions", with(numbered), 200, `{"id":3}`)
	w.call("POST", "/subjects/customer/versions", with(customer, to("shop.Address", "address", 1)))
	w.call("POST", "/subjects/proto/versions", proto3("message Line {}"))
	for name, c := range map[string]struct {
		body
		says string
	}{
		"no references":           {with(customer), "Address"},
		"unknown subject":         {with(customer, to("shop.Address", "nowhere", 1)), `No schema reference found for subject \"nowhere\" and version 1`},
		"unknown version":         {with(customer, to("shop.Address", "address", 9)), "version 9"},
		"no version":              {with(customer, to("shop.Address", "address", 0)), "a version from 1"},
		"no name":                 {with(customer, to("", "address", 1)), "has a name"},
		"one name twice":          {with(customer, to("shop.Address", "address", 1), to("shop.Address", "address", 2)), "two references"},
		"another language":        {with(customer, to("shop.Address", "proto", 1)), "is PROTOBUF"},
		"two versions of one":     {with(order, to("shop.Address", "address", 2), to("shop.Customer", "customer", 1)), "use one of them"},
		"a type that is not it":   {with(order, to("shop.Customer", "address", 1)), "Customer"},
		"references of no object": {body{"schema": customer, "references": []any{1}}, "body"},
	} {
		for _, path := range []string{"/subjects/new/versions", "/compatibility/subjects/customer/versions"} {
			w.t.Log(name)
			w.wantProblem("POST", path, c.body, 422, 42201, c.says)
		}
	}
	w.want("GET", "/subjects/new/versions?deleted=true", nil, 404, `{"error_code":40401,"message":"Subject 'new' not found."}`)
	w.wantError("POST", "/subjects/customer", with(customer, to("shop.Address", "address", 2)), 404, 40403) // another schema, though the text is the same
}

func TestCompatibilityLooksThroughReferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call("PUT", "/config/address", body{"compatibility": "NONE"})
	w.call("POST", "/subjects/address/versions", with(address))
	w.call("POST", "/subjects/address/versions", with(numbered))
	w.call("POST", "/subjects/customer/versions", with(customer, to("shop.Address", "address", 1)))
	w.wantProblem("POST", "/subjects/customer/versions", with(customer, to("shop.Address", "address", 2)), 409, 409, "cannot read")
	w.want("POST", "/compatibility/subjects/customer/versions/1", with(customer, to("shop.Address", "address", 2)), 200, `{"is_compatible":false}`)
	w.want("POST", "/compatibility/subjects/customer/versions/1", with(customer, to("shop.Address", "address", 1)), 200, `{"is_compatible":true}`)
	inline := strings.Replace(customer, `"Address"`, strings.Replace(address, `,"namespace":"shop"`, "", 1), 1)
	w.want("POST", "/compatibility/subjects/customer/versions/1", with(inline), 200, `{"is_compatible":true}`)

	nested := `{"type":"record","name":"Home","namespace":"shop","fields":[{"name":"of","type":` + inline + `}]}`
	w.call("POST", "/subjects/home/versions", with(nested))
	inner := `{"type":"record","name":"Letter","fields":[{"name":"to","type":["null","shop.Address"]}]}`
	if code, text := w.call("POST", "/subjects/letter/versions", with(inner, to("shop.Home", "home", 1))); code != 200 {
		t.Error(text) // a type inside of what is referred to
	}

	w.call("PUT", "/config/money", body{"compatibility": "NONE"})
	w.call("POST", "/subjects/money/versions", proto3("message Money { int64 cents = 1; }"))
	w.call("POST", "/subjects/money/versions", proto3("message Money { string cents = 1; }"))
	w.call("POST", "/subjects/money/versions", proto3("message Money { int64 cents = 1; string currency = 2; }"))
	const bill = `import "shop/money.proto"; import "google/protobuf/timestamp.proto"; message Bill { Money sum = 1; google.protobuf.Timestamp at = 2; }`
	w.wantProblem("POST", "/subjects/bill/versions", proto3(bill), 422, 42201, "shop/money.proto", "no reference has the name")
	w.wantProblem("POST", "/subjects/bill/versions", proto3("message Bill { Money sum = 1; }"), 422, 42201, "Money")
	w.wantProblem("POST", "/subjects/bill/versions", proto3(bill, to("schema.proto", "money", 1)), 422, 42201, "another path")
	code, _ := w.call("POST", "/subjects/bill/versions", proto3(bill, to("shop/money.proto", "money", 1)))
	if code != 200 {
		t.Fatal(code)
	}
	w.wantProblem("POST", "/subjects/bill/versions", proto3(bill, to("shop/money.proto", "money", 2)), 409, 409, "field 1 of shop.Money was int64 cents and is string cents")
	w.want("POST", "/compatibility/subjects/bill/versions", proto3(bill, to("shop/money.proto", "money", 3)), 200, `{"is_compatible":true}`)
	moved := `import "google/protobuf/timestamp.proto"; message Bill { Money sum = 1; google.protobuf.Timestamp at = 2; } message Money { int64 cents = 1; }`
	w.want("POST", "/compatibility/subjects/bill/versions", proto3(moved), 200, `{"is_compatible":true}`)
	w.want("POST", "/compatibility/subjects/bill/versions", proto3(strings.Replace(moved, "int64", "double", 1)), 200, `{"is_compatible":false}`)
	if text := mustCall(w, "/subjects/bill/versions/1"); !strings.Contains(text, `"schemaType":"PROTOBUF","references":[{"name":"shop/money.proto","subject":"money","version":1}]`) {
		t.Errorf("it shows %s", text)
	}
	// A file with an enum and no message can be imported, and through a file that is imported itself.
	w.call("POST", "/subjects/unit/versions", proto3("enum Unit { PIECE = 0; }"))
	w.call("POST", "/subjects/line/versions", proto3(`import "unit.proto"; message Line { Unit unit = 1; }`, to("unit.proto", "unit", 1)))
	if code, text := w.call("POST", "/subjects/lines/versions", proto3(`import "line.proto"; message Lines { repeated Line lines = 1; }`, to("line.proto", "line", 1))); code != 200 {
		t.Error(text)
	}
}

func TestWhatIsReferencedStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call("POST", "/subjects/address/versions", with(address))
	w.call("POST", "/subjects/customer/versions", with(customer, to("shop.Address", "address", 1)))
	w.wantProblem("DELETE", "/subjects/address/versions/1", nil, 422, 42206, "One or more references exist to the schema", "version 1 of subject customer")
	w.wantError("DELETE", "/subjects/address", nil, 422, 42206)
	w.want("GET", "/subjects/address/versions", nil, 200, `[1]`)
	w.want("DELETE", "/subjects/customer", nil, 200, `[1]`)
	w.want("GET", "/subjects/address/versions/1/referencedby", nil, 200, `[]`)
	w.want("GET", "/subjects/address/versions/1/referencedby?deleted=true", nil, 200, `[2]`)
	w.want("DELETE", "/subjects/address/versions/1", nil, 200, `1`)
	w.wantError("POST", "/subjects/customer/versions", with(customer, to("shop.Address", "address", 1)), 422, 42201)
	// The records of a deleted subject are still read.
	w.wantError("DELETE", "/subjects/address/versions/1?permanent=true", nil, 422, 42206)
	w.wantError("DELETE", "/subjects/address?permanent=true", nil, 422, 42206)
	w.want("GET", "/subjects/address/versions/1/schema?deleted=true", nil, 200, address)
	w.wantError("POST", "/subjects/customer", with(customer, to("shop.Address", "address", 1)), 404, 40403)
	if code, text := w.call("POST", "/subjects/customer?deleted=true", with(customer, to("shop.Address", "address", 1))); code != 200 {
		t.Error(text)
	}
	w.want("DELETE", "/subjects/customer?permanent=true", nil, 200, `[1]`)
	w.want("DELETE", "/subjects/address?permanent=true", nil, 200, `[1]`)
}

// Records that two processes write at the same moment come in either order; the first counts, for all who read them.
func TestDeletionAndReferenceAtTheSameMoment(t *testing.T) {
	t.Parallel()
	target := event{Kind: "schema", Subject: "address", Type: "AVRO", Schema: address}
	user := event{Kind: "schema", Subject: "customer", Type: "AVRO", Schema: customer, References: []Reference{to("shop.Address", "address", 1)}}
	deletion := event{Kind: "delete", Subject: "address", Version: 1}
	for name, c := range map[string]struct {
		events []event
		live   []string
	}{
		"the reference is first": {[]event{target, user, deletion}, []string{"address", "customer"}},
		"the deletion is first":  {[]event{target, deletion, user}, nil},
	} {
		s := newState()
		for i, e := range c.events {
			s.apply(int64(i), e)
		}
		var live []string
		for _, subject := range []string{"address", "customer"} {
			if len(s.live(subject)) > 0 {
				live = append(live, subject)
			}
		}
		if !slices.Equal(live, c.live) {
			t.Errorf("%s: there are %v, want %v", name, live, c.live)
		}
	}
}

// What a process has not read yet is read before it answers.
func TestProcessesSeeEachOthersReferences(t *testing.T) {
	t.Parallel()
	l := openLog(t, t.TempDir())
	a, b := New(l), New(l)
	ctx := context.Background()
	if _, err := a.Register(ctx, "address", Schema{Text: address}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Register(ctx, "customer", Schema{Text: customer, References: []Reference{to("shop.Address", "address", -1)}}); err != nil {
		t.Fatal(err)
	}
	w := &world{Registry: a, t: t, handler: a.Handler()}
	w.wantError("DELETE", "/subjects/address", nil, 422, 42206)
	if err := errors.Join(a.Close(ctx), b.Close(ctx), l.Close()); err != nil {
		t.Fatal(err)
	}
}
