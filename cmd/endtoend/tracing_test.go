package endtoend

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collectpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes traces by OTLP over HTTP, as a collector of OpenTelemetry does.
type collector struct {
	t      *testing.T
	server *http.Server

	mu       sync.Mutex
	requests []http.Header
	raw      strings.Builder // all that came, to look for what must not
	services []string
	spans    []*tracepb.Span
}

// listen begins to take traces at an address. They are kept until the end of the test.
func (c *collector) listen(address string) {
	c.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = &http.Server{Handler: http.HandlerFunc(c.take)}
	go c.server.Serve(listener)
	c.t.Cleanup(func() { c.server.Close() })
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collectpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
		c.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		http.Error(w, "not a trace", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r.Header.Clone())
	c.raw.Write(body)
	for _, resource := range request.ResourceSpans {
		c.services = append(c.services, text(resource.Resource.Attributes, "service.name"))
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// named returns the spans with that name that have come so far.
func (c *collector) named(name string) (out []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// one returns the only span of that name.
func (c *collector) one(name string) *tracepb.Span {
	c.t.Helper()
	list := c.named(name)
	if len(list) != 1 {
		c.t.Fatalf("%d spans named %q", len(list), name)
	}
	return list[0]
}

// steps returns the names of the steps of a span, sorted, and checks that they lie within it.
func (c *collector) steps(of *tracepb.Span) (names []string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if string(s.ParentSpanId) != string(of.SpanId) || string(s.TraceId) != string(of.TraceId) || strings.HasPrefix(s.Name, "deliver ") {
			continue
		}
		names = append(names, s.Name)
		if s.StartTimeUnixNano < of.StartTimeUnixNano || s.EndTimeUnixNano > of.EndTimeUnixNano || s.EndTimeUnixNano < s.StartTimeUnixNano {
			c.t.Errorf("%s lies outside of %s", s.Name, of.Name)
		}
	}
	slices.Sort(names)
	return names
}

// text returns an attribute as text.
func text(list []*commonpb.KeyValue, key string) string {
	for _, a := range list {
		if a.Key == key {
			switch v := a.Value.Value.(type) {
			case *commonpb.AnyValue_StringValue:
				return v.StringValue
			case *commonpb.AnyValue_IntValue:
				return fmt.Sprint(v.IntValue)
			case *commonpb.AnyValue_BoolValue:
				return fmt.Sprint(v.BoolValue)
			}
		}
	}
	return ""
}

// has checks attributes of a span, given as key=value.
func has(t *testing.T, s *tracepb.Span, want ...string) {
	t.Helper()
	for _, w := range want {
		key, value, _ := strings.Cut(w, "=")
		if got := text(s.Attributes, key); got != value {
			t.Errorf("%s: %s is %q, want %q", s.Name, key, got, value)
		}
	}
}

// liteShop makes a database of SQLite with rows, and returns it and a source that reads it.
func liteShop(t *testing.T, l *line, statements ...string) *sql.DB {
	t.Helper()
	db := sql.OpenDB(sqliteFile("file:" + filepath.Join(l.dir, "shop.db") + "?_pragma=busy_timeout(30000)"))
	t.Cleanup(func() { db.Close() })
	for _, s := range append([]string{"CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT, at INTEGER NOT NULL)"}, statements...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

const (
	liteSource = "  shop:\n    type: sqlite\n    path: DIR/shop.db\n    poll: 50ms\n    tables:\n      - {name: orders, cursor: at}\n"
	liteSink   = "  copy:\n    type: sqlite\n    path: DIR/copy.db\n    topics: ['*']\n    transforms:\n      - set: {columns: {extra: 1}}\n"
	plainSink  = "  shown:\n    type: stdout\n    topics: ['*']\n"
)

// archived returns what stands in the files of the sink archive.
func (l *line) archived() string {
	l.t.Helper()
	all := ""
	err := filepath.WalkDir(filepath.Join(l.dir, "archive"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all += string(text)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	return all
}

func TestATraceShowsABatchFromItsSourceToEachSink(t *testing.T) {
	t.Parallel()
	const row, token = "what-a-row-holds", "tellnobodythistoken"
	c := &collector{t: t}
	address := freeAddress(t)
	c.listen(address)
	l := newLineOn(t, "  topics: {partitions: 1}\n", liteSource, liteSink+fileSink+plainSink+
		"tracing:\n  endpoint: http://"+address+"\n  sample: 1\n  service: shopline\n  headers: {Authorization: Bearer "+token+"}\n")
	db := liteShop(t, l, "INSERT INTO orders VALUES (1, '"+row+"', 1), (2, '"+row+"', 2), (3, NULL, 3)")
	l.once()
	topic := "shop.main.orders"

	ingest := c.one("ingest shop")
	if len(ingest.ParentSpanId) != 0 {
		t.Error("the way of a batch begins in the middle")
	}
	if got, want := c.steps(ingest), []string{"append " + topic, "commit", "encode", "read shop"}; !slices.Equal(got, want) {
		t.Errorf("steps of the source: %v, want %v", got, want)
	}
	has(t, ingest, "trunkline.source=shop", "trunkline.rows=3")
	has(t, c.one("read shop"), "db.system.name=sqlite")
	has(t, c.one("append "+topic), "messaging.system=kafka", "messaging.operation.type=send", "messaging.destination.name="+topic, "messaging.batch.message_count=3")
	for sink, want := range map[string][]string{
		"copy":    {"decode", "fetch " + topic, "transform", "write copy"}, // its offsets are written with the rows
		"archive": {"decode", "fetch " + topic, "write archive"},           // and so they are here
		"shown":   {"commit shown", "decode", "fetch " + topic, "write shown"},
	} {
		deliver := c.one("deliver " + sink)
		if string(deliver.TraceId) != string(ingest.TraceId) || string(deliver.ParentSpanId) != string(ingest.SpanId) {
			t.Errorf("the delivery to %s is not part of the batch's trace", sink)
		}
		if got := c.steps(deliver); !slices.Equal(got, want) {
			t.Errorf("steps of sink %s: %v, want %v", sink, got, want)
		}
		has(t, deliver, "messaging.destination.name="+topic, "messaging.destination.partition.id=0", "messaging.consumer.group.name="+sink, "trunkline.rows=3")
		has(t, c.one("write "+sink), "db.operation.batch.size=3", fmt.Sprint("trunkline.offsets_in_sink=", sink != "shown"))
	}
	for _, r := range c.requests {
		if r.Get("Authorization") != "Bearer "+token {
			t.Error("a request without the header")
		}
	}
	if len(c.services) == 0 || c.services[0] != "shopline" {
		t.Errorf("services %v", c.services)
	}
	if strings.Contains(c.raw.String(), row) || strings.Contains(c.raw.String(), token) {
		t.Error("a span holds what a row holds, or a secret")
	}
	_, records := l.run("consume", topic, "--max", "3", "--format", "json")
	parent := fmt.Sprintf("00-%x-%x-01", ingest.TraceId, ingest.SpanId)
	if n := strings.Count(records, parent); n != 3 {
		t.Errorf("%d records name the trace %s:\n%s", n, parent, records)
	}
	written, err := os.ReadFile(l.output)
	if err != nil || strings.Contains(string(written), token) {
		t.Errorf("the program printed the token, or %v", err)
	}

	// Nothing is sampled: no request, and no header.
	l.configure(liteSource, liteSink+fileSink+"tracing:\n  endpoint: http://"+address+"\n  sample: 0\n")
	if _, err := db.Exec("INSERT INTO orders VALUES (4, 'd', 4)"); err != nil {
		t.Fatal(err)
	}
	before := len(c.requests)
	l.once()
	if len(c.requests) != before {
		t.Errorf("%d requests without a sample", len(c.requests)-before)
	}
	_, records = l.run("consume", topic, "--offset", "3", "--partition", "0", "--max", "1", "--format", "json")
	if !strings.Contains(records, "trunkline.schema") || strings.Contains(records, "traceparent") {
		t.Errorf("a record that is not traced: %s", records)
	}
	if archived := l.archived(); strings.Contains(archived, "traceparent") || strings.Count(archived, row) != 2 {
		t.Errorf("the archive:\n%s", archived)
	}
}

func TestALineGoesOnWhileTheCollectorIsAway(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	tracing := "tracing:\n  endpoint: http://" + address + "\n  sample: 1\n"
	l := newLine(t, liteSource, fileSink+tracing)
	l.env = []string{"OTEL_BSP_SCHEDULE_DELAY=20"}
	db := liteShop(t, l)
	rows := 0
	insert := func() {
		t.Helper()
		rows++
		if _, err := db.Exec("INSERT INTO orders VALUES (?, 'x', ?)", rows, rows); err != nil {
			t.Fatal(err)
		}
	}
	output := func() string {
		text, err := os.ReadFile(l.output)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const away, back = "traces cannot be sent and are lost", "traces are sent again"
	l.start()
	insert()
	eventually(t, away, func() bool { return strings.Contains(output(), away) })
	for range 5 {
		insert()
		eventually(t, "the row in the archive", func() bool { return strings.Count(l.archived(), "\n") == rows })
	}
	if n := strings.Count(output(), away); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	l.configure(liteSource, fileSink+strings.Replace(tracing, "sample: 1", "sample: 0.5", 1))
	if err := l.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "word of what counts later", func() bool {
		return strings.Contains(output(), `"these settings count from the next start on","settings":"tracing"`)
	})
	c := &collector{t: t}
	c.listen(address)
	eventually(t, back, func() bool {
		insert()
		return strings.Contains(output(), back)
	})
	insert()
	eventually(t, "the last row in the archive", func() bool { return strings.Count(l.archived(), "\n") == rows })
	if code := l.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if len(c.named("deliver archive")) == 0 {
		t.Error("no trace came")
	}
}

func TestTracesOfTransactionsReachTheSinkInTheirOwnTrace(t *testing.T) {
	t.Parallel()
	c := &collector{t: t}
	address := freeAddress(t)
	c.listen(address)
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, v text)", "INSERT INTO item VALUES (1, 'a')")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.item]"), postgresSink(target, "replica")+"tracing: {sample: 1}\n")
	l.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + address, "OTEL_SERVICE_NAME=replication", "OTEL_BSP_SCHEDULE_DELAY=20"}
	l.start()
	equalRows(t, source, target, "item")
	for i := range 3 {
		source.exec(fmt.Sprintf("INSERT INTO item VALUES (%d, 'b')", 2+i))
		equalRows(t, source, target, "item")
	}
	if code := l.stop(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	ways := c.named("ingest shop")
	if len(ways) < 4 {
		t.Fatalf("%d ways of 4 commits", len(ways))
	}
	delivered := c.named("deliver replica")
	for _, way := range ways {
		i := slices.IndexFunc(delivered, func(s *tracepb.Span) bool { return string(s.ParentSpanId) == string(way.SpanId) })
		if i < 0 {
			t.Errorf("a trace without its delivery: %v", way)
			continue
		}
		if string(delivered[i].TraceId) != string(way.TraceId) {
			t.Error("a delivery in another trace than its parent")
		}
	}
	has(t, c.named("write replica")[0], "db.system.name=postgresql", "trunkline.offsets_in_sink=true")
	if c.services[0] != "replication" {
		t.Errorf("services %v", c.services)
	}
	if columns := target.list("SELECT column_name FROM information_schema.columns WHERE table_name = 'item' ORDER BY 1"); !slices.Equal(columns, []string{"id", "v"}) {
		t.Errorf("columns of the target: %v", columns)
	}
}
