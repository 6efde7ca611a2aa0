package elasticsearch_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/elasticsearch"
	"github.com/trunkline/trunkline/connectors/localprocess"
)

// start runs osmem-server, which speaks OpenSearch's interface over memory.
func start(t *testing.T) string {
	t.Helper()
	server, err := localprocess.Search("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	p := localprocess.Start(t, server)
	return "http://" + p.Address
}

// store is a name space of its own on a server.
type store struct {
	t      *testing.T
	url    string // of the server itself, for reading
	prefix string
	config elasticsearch.SinkConfig
}

var last atomic.Int64

func newStore(t *testing.T, server string) *store {
	prefix := fmt.Sprintf("t%d-", last.Add(1))
	return &store{t, server, prefix, elasticsearch.SinkConfig{
		URL: server, Index: prefix + "{schema}.{table}", Deletes: "apply", Retry: time.Minute, Schema: connectors.FollowAll(connectors.Evolve)}}
}

func (s *store) open() connectors.OpenSink {
	s.t.Helper()
	open, err := elasticsearch.Connector().Sink(func(into any) error {
		c := into.(*elasticsearch.SinkConfig)
		*c = s.config
		return c.Validate()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return open
}

func (s *store) sink() connectors.Sink {
	s.t.Helper()
	opened, err := s.open()(s.t.Context(), connectors.NewEnv("search"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { opened.Close(context.Background()) })
	return opened
}

// call makes a request of the test's own.
func (s *store) call(method, path, body string) (int, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, text
}

// index is the name of a table's index, built apart from the sink.
func (s *store) index(table *connectors.Table) string {
	name := strings.NewReplacer("%", "%25", "Ü", "%c3%9c", " ", "%20", `"`, "%22").Replace(s.prefix + table.Schema + "." + table.Name)
	return "/" + url.PathEscape(name)
}

func (s *store) rows(t *testing.T, table *connectors.Table) (out []conformance.Row) {
	t.Helper()
	if status, _ := s.call("POST", s.index(table)+"/_refresh", ""); status == 404 {
		return nil
	}
	_, text := s.call("GET", s.index(table)+"/_search", `{"size":10000,"query":{"match_all":{}}}`)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var answer struct {
		Hits struct {
			Hits []struct {
				Source map[string]any `json:"_source"`
			}
		}
	}
	if err := d.Decode(&answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, hit := range answer.Hits.Hits {
		row := conformance.Row{}
		if hit.Source["_deleted"] == true {
			continue
		}
		for name, v := range hit.Source {
			if v == nil {
				continue
			}
			if name == "_deleted" {
				continue
			}
			row[name] = fmt.Sprint(v)
			if table.Columns[table.Column(name)].Kind == connectors.Bytes {
				raw, err := base64.StdEncoding.DecodeString(row[name])
				if err != nil {
					t.Fatal(err)
				}
				row[name] = string(raw)
			}
		}
		out = append(out, row)
	}
	return out
}

// TestSinkConformance runs alone, because it counts goroutines.
func TestSinkConformance(t *testing.T) {
	server := start(t)
	conformance.RunSink(t, conformance.SinkCase{Late: true, Wide: 30, Large: 300, Partial: true, New: func(t *testing.T) conformance.SinkSystem {
		s := newStore(t, server)
		return conformance.SinkSystem{Open: s.open(), Rows: s.rows}
	}})
}

var item = &connectors.Table{Schema: "shop", Name: "item", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Kind: connectors.Int}, {Name: "name", Kind: connectors.Text}, {Name: "price", Kind: connectors.Decimal}}}

func row(id int64, name string) []connectors.Value {
	return []connectors.Value{connectors.IntValue(id), connectors.DataValue(connectors.Text, []byte(name)), connectors.DataValue(connectors.Decimal, []byte("1.10"))}
}

func batch(first int64, changes ...connectors.Change) connectors.Batch {
	for i := range changes {
		changes[i].Offset = first + int64(i)
		if changes[i].Table == nil {
			changes[i].Table = item
		}
	}
	return connectors.Batch{Stream: "shop.item/0", Changes: changes, Position: strconv.AppendInt(nil, first+int64(len(changes)), 10)}
}

func insert(id int64, name string) connectors.Change {
	return connectors.Change{Op: connectors.Insert, After: row(id, name)}
}

func remove(id int64) connectors.Change {
	return connectors.Change{Op: connectors.Delete, Before: []connectors.Value{connectors.IntValue(id), {}, {}}}
}

// between stands between the sink and the server, and may change what the server says to a bulk request.
type between struct {
	*httptest.Server
	mu   sync.Mutex
	bulk []string // bodies of bulk requests
	// change returns the status of an item in place of the server's, which then does not see it; 0 leaves it alone.
	change func(request int, action string) int
}

func intercept(t *testing.T, server string) *between {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{change: func(int, string) int { return 0 }}
	proxy := httputil.NewSingleHostReverseProxy(u)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_bulk" {
			proxy.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.forward(w, r, server, string(body))
	}))
	t.Cleanup(b.Server.Close)
	return b
}

// forward hands on the actions that are not answered here, and puts the answers together again.
func (b *between) forward(w http.ResponseWriter, r *http.Request, server, body string) {
	n := len(b.bulk)
	b.bulk = append(b.bulk, body)
	var kept strings.Builder
	var statuses []int
	lines := strings.SplitAfter(body, "\n")
	for i := 0; i < len(lines) && lines[i] != ""; i++ {
		action := lines[i]
		if strings.HasPrefix(action, `{"index"`) {
			i++
			action += lines[i]
		}
		status := b.change(n, action)
		if statuses = append(statuses, status); status == 0 {
			kept.WriteString(action)
		}
	}
	var real struct{ Items []json.RawMessage }
	if kept.Len() > 0 {
		resp, err := http.Post(server+"/_bulk", "application/x-ndjson", strings.NewReader(kept.String()))
		if err != nil || json.NewDecoder(resp.Body).Decode(&real) != nil {
			w.WriteHeader(502)
			return
		}
		resp.Body.Close()
	}
	items := []json.RawMessage{}
	for _, status := range statuses {
		if status == 0 {
			items, real.Items = append(items, real.Items[0]), real.Items[1:]
			continue
		}
		items = append(items, json.RawMessage(fmt.Sprintf(`{"index":{"status":%d,"error":{"type":"injected_%d","reason":"unable to parse field [name] of type [long] in document with id 'secret'"}}}`, status, status)))
	}
	json.NewEncoder(w).Encode(map[string]any{"errors": true, "items": items})
}

// TestF49PartialBulkFailureAndLateRetry: of one bulk request items end with 201, 429, 400 and 409. Then a document is
// written, deleted, and its write comes late.
func TestF49PartialBulkFailureAndLateRetry(t *testing.T) {
	t.Parallel()
	server := start(t)
	s := newStore(t, server)
	proxy := intercept(t, server)
	s.config.URL = proxy.URL
	sink := s.sink()
	if err := sink.Write(t.Context(), batch(100, insert(4, "newer"))); err != nil {
		t.Fatal(err)
	}
	proxy.change = func(request int, action string) int {
		switch {
		case strings.Contains(action, `"_id":"[2]"`) && request == 1:
			return 429
		case strings.Contains(action, `"_id":"[3]"`):
			return 400
		}
		return 0
	}
	b := batch(0, insert(1, "a"), insert(2, "b"), insert(3, "c"), insert(4, "older"))
	var rows *connectors.RowsError
	err := sink.Write(t.Context(), b)
	if !errors.As(err, &rows) || len(rows.Rows) != 1 || rows.Rows[0].Index != 2 || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "[name]") {
		t.Fatalf("write: %v, want row 2 refused with its field and no value", err)
	}
	if len(proxy.bulk) != 3 || strings.Count(proxy.bulk[2], "_id") != 1 || !strings.Contains(proxy.bulk[2], `"_id":"[2]"`) {
		t.Errorf("bulk requests %q; want the 429 alone to be sent again", proxy.bulk[1:])
	}
	names := func() (out []string) {
		for _, r := range s.rows(t, item) {
			out = append(out, r["id"]+r["name"])
		}
		slices.Sort(out)
		return out
	}
	if got := names(); !slices.Equal(got, []string{"1a", "2b", "4newer"}) {
		t.Errorf("documents %v", got)
	}
	for _, late := range []connectors.Batch{batch(200, insert(9, "x")), batch(201, remove(9)), batch(200, insert(9, "x"))} {
		if err := sink.Write(t.Context(), late); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); !slices.Equal(got, []string{"1a", "2b", "4newer"}) {
		t.Errorf("documents %v after a late write of a deleted one", got)
	}
}

func TestStoreThatStaysBusyGivesTheBatchBack(t *testing.T) {
	t.Parallel()
	server := start(t)
	s := newStore(t, server)
	proxy := intercept(t, server)
	s.config.URL, s.config.Retry = proxy.URL, 0
	proxy.change = func(int, string) int { return 429 }
	var rows *connectors.RowsError
	if err := s.sink().Write(t.Context(), batch(0, insert(1, "a"))); err == nil || errors.As(err, &rows) || errors.Is(err, connectors.ErrFatal) {
		t.Errorf("write: %v, want an error that is tried again", err)
	}
}

func TestDocumentsKeepEveryDigitAndMappingsFindThem(t *testing.T) {
	t.Parallel()
	s := newStore(t, start(t))
	c := insert(9007199254740993, "It's")
	c.After[2] = connectors.DataValue(connectors.Decimal, []byte("NaN"))
	if err := s.sink().Write(t.Context(), batch(0, c, insert(2, "other"))); err != nil {
		t.Fatal(err)
	}
	if _, text := s.call("GET", s.index(item)+"/_doc/"+url.PathEscape("[9007199254740993]"), ""); !strings.Contains(string(text), `"id":9007199254740993,"name":"It's","price":"NaN"`) || !strings.Contains(string(text), `"_version":1`) {
		t.Errorf("document %s", text)
	}
	s.call("POST", s.index(item)+"/_refresh", "")
	if _, text := s.call("GET", s.index(item)+"/_count", `{"query":{"range":{"price":{"gte":1.1,"lt":2}}}}`); !strings.Contains(string(text), `"count":1`) {
		t.Errorf("found %s", text)
	}
	if _, text := s.call("GET", s.index(item)+"/_mapping", ""); !strings.Contains(string(text), `"id":{"ignore_malformed":true,"type":"long"}`) {
		t.Errorf("mapping %s", text)
	}
}

func TestSchemaCanBeFrozenOrLeft(t *testing.T) {
	t.Parallel()
	s := newStore(t, start(t))
	s.config.Schema = connectors.FollowAll(connectors.Freeze)
	migrator := s.sink().(connectors.Migrator)
	var misfit *connectors.SchemaError
	if err := migrator.Migrate(t.Context(), connectors.Migration{To: item}); !errors.As(err, &misfit) || !strings.Contains(misfit.Statement, `"mappings"`) {
		t.Errorf("freeze: %v", err)
	}
	s.config.Schema = connectors.FollowAll(connectors.Ignore)
	if err := s.sink().Write(t.Context(), batch(0, insert(1, "a"))); err != nil {
		t.Error(err)
	}
}

func TestServerThatIsGone(t *testing.T) {
	t.Parallel()
	s := newStore(t, "http://127.0.0.1:1")
	if _, err := s.open()(t.Context(), connectors.NewEnv("search")); err == nil || errors.Is(err, connectors.ErrFatal) {
		t.Errorf("open: %v, want an error that is tried again", err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	base := newStore(t, "https://x:9200").config
	for want, change := range map[string]func(*elasticsearch.SinkConfig){
		"url is not":         func(c *elasticsearch.SinkConfig) { c.URL = "x" },
		"api_key excludes":   func(c *elasticsearch.SinkConfig) { c.APIKey, c.User = "k", "u" },
		"index must contain": func(c *elasticsearch.SinkConfig) { c.Index = "all" },
		"deletes is not":     func(c *elasticsearch.SinkConfig) { c.Deletes = "mark" },
		"write is not":       func(c *elasticsearch.SinkConfig) { c.Write = "insert" },
		"deletes: apply":     func(c *elasticsearch.SinkConfig) { c.Write = "append" },
		"retry must":         func(c *elasticsearch.SinkConfig) { c.Retry = -1 },
		"schema is not":      func(c *elasticsearch.SinkConfig) { c.Schema = connectors.FollowAll("strict") },
		"tls is not":         func(c *elasticsearch.SinkConfig) { c.TLS.TLS = "on" },
	} {
		c := base
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
