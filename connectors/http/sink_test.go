package http_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/http"
)

// receiver is a web server that keeps what it takes, in the order in which it took it.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	lines  [][]byte // the changes of every request that was answered with 2xx
	taken  []seen   // every request
	answer func(n int, s seen) int
	config http.SinkConfig
}

type seen struct {
	path, body string
	header     nethttp.Header
	status     int
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: func(int, seen) int { return 204 }}
	r.Server = httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, q *nethttp.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		s := seen{path: q.URL.EscapedPath(), body: string(body), header: q.Header.Clone()}
		s.status = r.answer(len(r.taken), s)
		r.taken = append(r.taken, s)
		if s.status/100 == 2 {
			r.lines = append(r.lines, split(body)...)
		}
		if s.status == 429 {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(s.status)
	}))
	t.Cleanup(r.Server.Close)
	r.config = http.SinkConfig{URL: r.URL, Method: "POST", Format: http.JSON, Send: http.Batches, Parallel: 1, Timeout: 30 * time.Second, Retry: time.Minute}
	return r
}

// split returns the changes of a body in any of the formats.
func split(body []byte) (lines [][]byte) {
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return lines
		}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			list = []json.RawMessage{raw}
		}
		for _, one := range list {
			var event struct{ Data json.RawMessage }
			if json.Unmarshal(one, &event); event.Data != nil {
				one = event.Data
			}
			lines = append(lines, one)
		}
	}
}

func (r *receiver) open(t *testing.T) connectors.OpenSink {
	t.Helper()
	open, err := http.Connector().Sink(func(into any) error {
		c := into.(*http.SinkConfig)
		*c = r.config
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func (r *receiver) sink(t *testing.T) connectors.Sink {
	t.Helper()
	s, err := r.open(t)(t.Context(), connectors.NewEnv("hook"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func (r *receiver) log(t *testing.T, table *connectors.Table) (out []conformance.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if e, ok := conformance.ParseLine(t, line, table); ok {
			out = append(out, e)
		}
	}
	return out
}

// TestSinkConformance runs alone, because it counts goroutines.
func TestSinkConformance(t *testing.T) {
	for format, sends := range map[http.Format][]http.Send{http.JSON: {http.Batches, http.Events}, http.Lines: {http.Batches}, http.CloudEvents: {http.Batches}} {
		for _, send := range sends {
			t.Run(string(format)+" "+string(send), func(t *testing.T) {
				conformance.RunSink(t, conformance.SinkCase{Wide: 100, Partial: true, New: func(t *testing.T) conformance.SinkSystem {
					r := receive(t)
					r.config.Format, r.config.Send = format, send
					if send == http.Events {
						r.config.Parallel = 4
					}
					return conformance.SinkSystem{
						Open: r.open(t), Log: r.log,
						Refuse: func(*testing.T, *connectors.Table) {
							r.answer = func(_ int, s seen) int {
								if strings.Contains(s.body, `"bad"`) {
									return 422
								}
								return 200
							}
						},
					}
				}})
			})
		}
	}
}

var item = &connectors.Table{Schema: "shop", Name: "item", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Kind: connectors.Int}, {Name: "name", Kind: connectors.Text}}}

func batch(first int64, ids ...int) connectors.Batch {
	b := connectors.Batch{Stream: "shop.item/3"}
	for i, id := range ids {
		b.Changes = append(b.Changes, connectors.Change{
			Op: connectors.Insert, Table: item, Offset: first + int64(i), Time: time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC),
			After: []connectors.Value{connectors.IntValue(int64(id)), connectors.DataValue(connectors.Text, fmt.Appendf(nil, "n%d", i))}})
	}
	b.Position = strconv.AppendInt(nil, first+int64(len(ids)), 10)
	return b
}

func TestRequestsAreSignedNamedAndFilledIn(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.config.URL += "/{topic}/{table}/{key}?op={op}"
	r.config.Send, r.config.Format, r.config.Method = http.Events, http.CloudEvents, "PUT"
	r.config.Secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key"))
	r.config.Headers = map[string]string{"Authorization": "Bearer x", "X-Table": "{schema}.{table}"}
	if err := r.sink(t).Write(t.Context(), batch(7, 1)); err != nil {
		t.Fatal(err)
	}
	q := r.taken[0]
	if q.path != "/shop.item/item/%5B1%5D" || q.header.Get("X-Table") != "shop.item" || q.header.Get("Authorization") != "Bearer x" {
		t.Errorf("path %s, headers %v", q.path, q.header)
	}
	if q.header.Get("Idempotency-Key") != "shop.item/3/7" || !strings.HasPrefix(q.header.Get("Content-Type"), "application/cloudevents+json") {
		t.Errorf("headers %v", q.header)
	}
	mac := hmac.New(sha256.New, []byte("a key"))
	fmt.Fprintf(mac, "%s.%s.%s", q.header.Get("Webhook-Id"), q.header.Get("Webhook-Timestamp"), q.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); q.header.Get("Webhook-Signature") != want {
		t.Errorf("signature %s, want %s", q.header.Get("Webhook-Signature"), want)
	}
	var event map[string]any
	if err := json.Unmarshal([]byte(q.body), &event); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"specversion": "1.0", "id": "shop.item/3/7", "source": "/shop.item", "type": "trunkline.insert", "subject": "[1]", "time": "2026-01-30T12:00:00.000000Z"} {
		if event[name] != want {
			t.Errorf("%s is %v, want %s", name, event[name], want)
		}
	}
}

// TestServerThatAsksForPatienceGetsTheSameAgain answers 429 with Retry-After and 503 before it takes the request.
func TestServerThatAsksForPatienceGetsTheSameAgain(t *testing.T) {
	t.Parallel()
	r := receive(t)
	statuses := []int{429, 503, 200}
	r.answer = func(n int, _ seen) int { return statuses[n] }
	before := time.Now()
	if err := r.sink(t).Write(t.Context(), batch(0, 1, 2)); err != nil {
		t.Fatal(err)
	}
	if time.Since(before) < time.Second {
		t.Error("Retry-After was not waited for")
	}
	for _, q := range r.taken {
		if q.body != r.taken[0].body || q.header.Get("Idempotency-Key") != "shop.item/3/0-1" {
			t.Errorf("a try differs: %s %v", q.body, q.header)
		}
	}
	if len(r.taken) != 3 {
		t.Errorf("%d requests, want 3", len(r.taken))
	}
}

// TestF49PartialFailures: of single events one gets 429 and is sent again, one 400 and is named, the others go through once.
func TestF49PartialFailures(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.config.Send, r.config.Parallel = http.Events, 3
	slow := true
	r.answer = func(_ int, s seen) int {
		switch {
		case strings.Contains(s.body, `"id":2}`) && slow:
			slow = false
			return 429
		case strings.Contains(s.body, `"id":3}`):
			return 400
		}
		return 201
	}
	sink := r.sink(t)
	b := batch(0, 1, 2, 3, 4)
	var rows *connectors.RowsError
	if err := sink.Write(t.Context(), b); !errors.As(err, &rows) || len(rows.Rows) != 1 || rows.Rows[0].Index != 2 {
		t.Fatalf("write: %v, want row 2 refused", err)
	}
	b.Changes = slices.Delete(b.Changes, 2, 3)
	if err := sink.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, q := range r.taken {
		count[q.header.Get("Idempotency-Key")+" "+strconv.Itoa(q.status)]++
	}
	want := map[string]int{"shop.item/3/0 201": 1, "shop.item/3/1 429": 1, "shop.item/3/1 201": 1, "shop.item/3/2 400": 1, "shop.item/3/3 201": 1}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("requests %v, want %v", count, want)
	}
}

// TestOrderOfAKeyIsKept sends many changes of few keys at once, of which some are told to wait.
func TestOrderOfAKeyIsKept(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.config.Send, r.config.Parallel = http.Events, 8
	r.answer = func(n int, _ seen) int {
		if n%7 == 3 {
			return 503
		}
		return 200
	}
	var ids []int
	for i := range 60 {
		ids = append(ids, i%9)
	}
	if err := r.sink(t).Write(t.Context(), batch(0, ids...)); err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	for _, e := range r.log(t, item) {
		if id := e.After["id"]; e.Offset < last[id] {
			t.Errorf("key %s: offset %d came after %d", id, e.Offset, last[id])
		} else {
			last[id] = e.Offset
		}
	}
	if len(r.lines) != 60 {
		t.Errorf("%d changes, want 60", len(r.lines))
	}
}

func TestAnswersThatAPersonHasToDealWith(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 401, 403, 404, 405, 410} {
		r := receive(t)
		r.config.URL = strings.Replace(r.URL, "http://", "http://user:hidden@", 1) + "/hidden"
		r.answer = func(int, seen) int { return status }
		err := r.sink(t).Write(t.Context(), batch(0, 1))
		if !errors.Is(err, connectors.ErrFatal) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%d: %v, want ErrFatal without the URL", status, err)
		}
	}
	r := receive(t)
	r.Close()
	r.config.URL += "/hidden"
	if err := r.sink(t).Write(t.Context(), batch(0, 1)); err == nil || errors.Is(err, connectors.ErrFatal) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("no server: %v, want an error that is tried again, without the URL", err)
	}
}

func TestServerThatStaysBusyGivesTheBatchBack(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.config.Retry = 0
	r.answer = func(int, seen) int { return 503 }
	err := r.sink(t).Write(t.Context(), batch(0, 1))
	var rows *connectors.RowsError
	if err == nil || errors.Is(err, connectors.ErrFatal) || errors.As(err, &rows) {
		t.Errorf("write: %v, want an error that is tried again", err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	base := http.SinkConfig{URL: "https://x/y", Method: "POST", Format: http.JSON, Send: http.Batches, Parallel: 1, Timeout: 1}
	for want, change := range map[string]func(*http.SinkConfig){
		"url is not":                func(c *http.SinkConfig) { c.URL = "ftp://x" },
		"url has {key}":             func(c *http.SinkConfig) { c.URL = "http://x/{key}" },
		"method is not":             func(c *http.SinkConfig) { c.Method = "GET" },
		"format is not":             func(c *http.SinkConfig) { c.Format = "xml" },
		"send is not":               func(c *http.SinkConfig) { c.Send = "all" },
		"parallel must":             func(c *http.SinkConfig) { c.Parallel = 0 },
		"parallel is for":           func(c *http.SinkConfig) { c.Parallel = 2 },
		"timeout must":              func(c *http.SinkConfig) { c.Timeout = 0 },
		"headers has an entry":      func(c *http.SinkConfig) { c.Headers = map[string]string{"a b": "c"} },
		"headers has {nothing}":     func(c *http.SinkConfig) { c.Headers = map[string]string{"a": "{nothing}"} },
		"tls is not one of disable": func(c *http.SinkConfig) { c.TLS.TLS = "on" },
	} {
		c := base
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
}

func TestCheckSaysWhetherSomebodyListens(t *testing.T) {
	t.Parallel()
	r := receive(t)
	for _, up := range []bool{true, false} {
		if !up {
			r.Close()
		}
		check, err := http.Connector().CheckSink(func(into any) error { *into.(*http.SinkConfig) = r.config; return nil })
		if err != nil {
			t.Fatal(err)
		}
		findings, err := check(t.Context(), connectors.NewEnv("hook"))
		if err != nil || (len(findings) == 0) != up {
			t.Errorf("up %v: %v, %v", up, findings, err)
		}
	}
}
