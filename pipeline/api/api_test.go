package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for a condition.
const patience = time.Minute

const oneLine = `
sources:
  shop: {type: memory}
sinks:
  copy: {type: memory, topics: ["shop.*"], batch: {wait: 1ms}}
`

// world is the API of a pipeline over a real log.
type world struct {
	space    *memory.Space
	journal  log.Log
	pipeline *pipeline.Pipeline
	handler  http.Handler
	client   *api.Client
}

func open(t *testing.T, run bool) *world {
	t.Helper()
	return openWith(t, oneLine, run)
}

func openWith(t *testing.T, text string, run bool) *world {
	t.Helper()
	w := &world{space: memory.NewSpace()}
	registry, err := connectors.NewRegistry(w.space.Connector())
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("p.yaml", []byte(text), registry, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	c.Log.Dir = filepath.Join(t.TempDir(), "log")
	journal, err := disk.Open(c.Log.Dir, disk.Options{Defaults: log.TopicConfig{Partitions: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
	w.journal = journal
	w.pipeline, err = pipeline.New(c, journal, pipeline.Options{Backoff: connectors.Backoff{First: time.Millisecond, Limit: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	w.handler = api.New(api.Options{Pipeline: w.pipeline, Journal: journal, Version: "test"})
	w.client = api.InProcess(w.handler)
	if run {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.pipeline.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

// call makes a request in process and fails the test at an error.
func (w *world) call(t *testing.T, method, path string, body, out any) {
	t.Helper()
	if err := w.client.Call(t.Context(), method, path, body, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// refuse makes a request that must fail with the code.
func (w *world) refuse(t *testing.T, code int, method, path string, body any) string {
	t.Helper()
	err := w.client.Call(t.Context(), method, path, body, nil)
	var refused *api.RefusedError
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%s %s = %v, want %d", method, path, err, code)
		return ""
	}
	return refused.Problem
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("still waiting for %s", what)
		case <-tick.C:
		}
	}
}

func (w *world) produce(t *testing.T, topic, lines string) int64 {
	t.Helper()
	answer, err := w.client.Stream(t.Context(), "POST", api.Path("api", "topics", topic, "records"), nil, strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	text, err := io.ReadAll(answer)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	if _, err := fmt.Sscanf(string(text), `{"records":%d}`, &n); err != nil {
		t.Fatalf("answer %s: %v", text, err)
	}
	return n
}

func (w *world) consume(t *testing.T, topic string, q url.Values) []api.Record {
	t.Helper()
	answer, err := w.client.Stream(t.Context(), "GET", api.Path("api", "topics", topic, "records"), q, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	var out []api.Record
	if err := api.Records(answer, func(r api.Record) error { out = append(out, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnyBytesSurviveProduceAndConsume(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	w.call(t, "PUT", "/api/topics/t", api.NewTopic{Partitions: 1}, nil)
	lines := `{"key":"k","value":"v","headers":[{"key":"h","value":"x"},{"key":"b","value_base64":"/w=="}]}
{"key":null,"value":null}
{"key":"","value":""}

{"key_base64":"/wA=","value_base64":"AP8="}
{"key":"a\u0000b","value":"<&>\u2028"}`
	if n := w.produce(t, "t", lines); n != 5 {
		t.Fatalf("appended %d records, want 5", n)
	}
	got := w.consume(t, "t", nil)
	want := [][2][]byte{{[]byte("k"), []byte("v")}, {nil, nil}, {{}, {}}, {{0xff, 0}, {0, 0xff}}, {[]byte("a\x00b"), []byte("<&>\u2028")}}
	if len(got) != len(want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
	for i, r := range got {
		key, value := r.KeyBytes(), r.ValueBytes()
		if !bytes.Equal(key, want[i][0]) || (key == nil) != (want[i][0] == nil) || !bytes.Equal(value, want[i][1]) || (value == nil) != (want[i][1] == nil) {
			t.Errorf("record %d = %q %q, want %q", i, key, value, want[i])
		}
		if *r.Offset != int64(i) {
			t.Errorf("record %d has offset %d", i, *r.Offset)
		}
	}
	if h := got[0].Headers; len(h) != 2 || *h[0].Value != "x" || !bytes.Equal(h[1].ValueBase64, []byte{0xff}) {
		t.Errorf("headers = %+v", h)
	}
}

func TestProduceRefusesWhatItCannotPlace(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	w.call(t, "PUT", "/api/topics/t", api.NewTopic{Partitions: 2}, nil)
	for name, line := range map[string]string{
		"not JSON": `nope`, "two values": `{"value":"a","value_base64":"AA=="}`, "no such partition": `{"value":"a","partition":2}`,
	} {
		_, err := w.client.Stream(t.Context(), "POST", "/api/topics/t/records", nil, strings.NewReader("{\"value\":\"good\"}\n"+line))
		var refused *api.RefusedError
		if !errors.As(err, &refused) || refused.Code != 400 || !strings.Contains(refused.Problem, "line 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.consume(t, "t", nil); len(got) != 3 {
		t.Errorf("%d records, want the 3 good lines before the bad", len(got))
	}
	w.refuse(t, 400, "POST", "/api/topics/_trunkline.positions/records", nil)
	w.refuse(t, 404, "POST", "/api/topics/none/records", nil)
}

func TestConsumeEndsWhereTheTopicEndedOrFollows(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	w.call(t, "PUT", "/api/topics/t", api.NewTopic{Partitions: 3}, nil)
	if got := w.consume(t, "t", nil); len(got) != 0 {
		t.Errorf("an empty topic gives %v", got)
	}
	for i := range 20 {
		w.produce(t, "t", fmt.Sprintf(`{"key":"%d","value":"%d"}`, i, i))
	}
	if got := w.consume(t, "t", url.Values{"max": {"7"}}); len(got) != 7 {
		t.Errorf("max 7 gives %d", len(got))
	}
	if got := w.consume(t, "t", url.Values{"from": {"latest"}}); len(got) != 0 {
		t.Errorf("from the end gives %v", got)
	}
	if got := w.consume(t, "t", url.Values{"partition": {"1"}, "offset": {"2"}}); len(got) == 0 || *got[0].Offset != 2 || *got[0].Partition != 1 {
		t.Errorf("from offset 2 gives %v", got)
	}
	answer, err := w.client.Stream(t.Context(), "GET", "/api/topics/t/records", url.Values{"follow": {"true"}, "from": {"latest"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	w.produce(t, "t", `{"value":"new"}`)
	stop := errors.New("seen")
	err = api.Records(answer, func(r api.Record) error {
		if *r.Value != "new" {
			t.Errorf("got %q", *r.Value)
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("follow ends with %v", err)
	}
	for _, q := range []string{"from=x", "partition=9", "partition=-1", "offset=1", "max=a", "group=g&partition=1", "group=copy"} {
		w.refuse(t, 400, "GET", "/api/topics/t/records?"+q, nil)
	}
}

func TestGroupGoesOnWhereItCommitted(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	w.call(t, "PUT", "/api/topics/t", api.NewTopic{Partitions: 1}, nil)
	w.produce(t, "t", "{\"value\":\"0\"}\n{\"value\":\"1\"}\n{\"value\":\"2\"}")
	group := url.Values{"group": {"g"}, "max": {"2"}}
	if got := w.consume(t, "t", group); len(got) != 2 || *got[1].Value != "1" {
		t.Fatalf("first reading = %v", got)
	}
	if got := w.consume(t, "t", group); len(got) != 1 || *got[0].Value != "2" {
		t.Fatalf("second reading = %v", got)
	}
	var moves []api.Move
	w.call(t, "POST", "/api/groups/g/reset", api.Reset{To: "1", DryRun: true}, &moves)
	if len(moves) != 1 || moves[0].From != 3 || moves[0].To != 1 {
		t.Errorf("moves = %+v", moves)
	}
	var g api.Group
	w.call(t, "GET", "/api/groups/g", nil, &g)
	if g.Lag != 0 {
		t.Errorf("a dry run moved the group: %+v", g)
	}
	w.call(t, "POST", "/api/groups/g/reset", api.Reset{To: "1"}, &moves)
	w.call(t, "GET", "/api/groups/g", nil, &g)
	if g.Lag != 2 || g.Partitions[0].Committed != 1 {
		t.Errorf("group = %+v", g)
	}
	w.refuse(t, 400, "POST", "/api/groups/g/reset", api.Reset{To: "soon"})
	w.refuse(t, 400, "POST", "/api/groups/g/reset", map[string]string{"too": "1"})
	w.refuse(t, 404, "POST", "/api/groups/none/reset", api.Reset{To: "1"})
	w.refuse(t, 404, "GET", "/api/groups/none", nil)
}

func TestActiveGroupIsNotReset(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	w.call(t, "PUT", "/api/topics/t", api.NewTopic{Partitions: 1}, nil)
	w.produce(t, "t", `{"value":"0"}`)
	answer, err := w.client.Stream(t.Context(), "GET", "/api/topics/t/records", url.Values{"group": {"g"}, "follow": {"true"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	eventually(t, "a member", func() bool {
		groups, err := w.journal.Groups(t.Context())
		return err == nil && len(groups) == 1 && len(groups[0].Members) == 1
	})
	if text := w.refuse(t, 409, "POST", "/api/groups/g/reset", api.Reset{To: "earliest", Topic: "t"}); !strings.Contains(text, "stop its readers first") {
		t.Errorf("problem = %q", text)
	}
}

func TestSinkIsSteered(t *testing.T) {
	t.Parallel()
	w := open(t, true)
	table := &connectors.Table{Schema: "public", Name: "orders", Key: []int{0}, Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}}
	row := func(id int64) connectors.Change {
		return connectors.Change{Op: connectors.Insert, Table: table, Time: time.Now(), After: []connectors.Value{connectors.IntValue(id)}}
	}
	store := w.space.Store("copy")
	w.space.Feed("shop").Append(row(1), row(2))
	eventually(t, "two rows", func() bool { return store.Count("public.orders") == 2 })
	w.call(t, "POST", "/api/sinks/copy/pause", nil, nil)
	eventually(t, "the pause", func() bool {
		s, err := w.pipeline.Status(t.Context())
		return err == nil && s.Sinks[0].State == pipeline.Paused
	})
	w.call(t, "POST", "/api/sinks/copy/resume", nil, nil)
	w.call(t, "POST", "/api/groups/copy/reset", api.Reset{To: "earliest"}, nil)
	eventually(t, "the rows again", func() bool { return len(store.Log()) == 4 })
	w.refuse(t, 404, "POST", "/api/sinks/none/pause", nil)
	w.refuse(t, 404, "POST", "/api/sinks/copy/explode", nil)
	w.refuse(t, 404, "POST", "/api/things/copy/pause", nil)
	w.refuse(t, 404, "POST", "/api/sinks/copy/public.order/pause", nil)
	w.call(t, "POST", "/api/sinks/copy/public.orders/pause", nil, nil)
	w.space.Feed("shop").Append(row(3))
	eventually(t, "the row in the log", func() bool {
		s, err := w.pipeline.Status(t.Context())
		return err == nil && len(s.Sinks[0].Tables) == 1 && s.Sinks[0].Tables[0].State == pipeline.Paused && s.Sinks[0].LagRows > 0
	})
	if n := store.Count("public.orders"); n != 2 {
		t.Errorf("%d rows came through while the table is paused", n)
	}
	w.call(t, "POST", "/api/sinks/copy/public.orders/resume", nil, nil)
	eventually(t, "the third row", func() bool { return store.Count("public.orders") == 3 })
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	for name, c := range map[string]struct {
		method, host string
		header       [2]string
		want         int
	}{
		"a command":             {"POST", "", [2]string{}, 200},
		"the page itself":       {"POST", "", [2]string{"Sec-Fetch-Site", "same-origin"}, 200},
		"another site":          {"POST", "", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"an old browser":        {"POST", "", [2]string{"Origin", "http://evil.example"}, 403},
		"a name that was bent":  {"GET", "evil.example", [2]string{}, 403},
		"a name with a port":    {"GET", "evil.example:8080", [2]string{}, 403},
		"localhost":             {"GET", "localhost:8080", [2]string{}, 405},
		"an address of another": {"GET", "10.0.0.1:8080", [2]string{}, 403},
		"loopback in IPv6":      {"GET", "[::1]:8080", [2]string{}, 405},
	} {
		r, err := http.NewRequest(c.method, server.URL+"/api/sinks/copy/pause", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.host != "" {
			r.Host = c.host
		}
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.want)
		}
	}
}

func TestHealthReadinessPageAndMetrics(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	get := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		w.handler.ServeHTTP(answer, r)
		return answer.Code, answer.Body.String()
	}
	if code, text := get("/healthz"); code != 200 || text != "ok\n" {
		t.Errorf("healthz = %d %q", code, text)
	}
	if code, text := get("/readyz"); code != 503 || !strings.Contains(text, "source shop is stopped") {
		t.Errorf("readyz = %d %q", code, text)
	}
	if code, text := get("/"); code != 200 || !strings.Contains(text, "<title>Trunkline</title>") {
		t.Errorf("page = %d", code)
	}
	code, text := get("/metrics")
	for _, want := range []string{`trunkline_source_state{source="shop",state="stopped"} 1`, `trunkline_sink_lag_rows{sink="copy"} 0`, "trunkline_log_up 1", "go_goroutines"} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if code, _ := get("/nothing"); code != 404 {
		t.Errorf("an unknown path = %d", code)
	}
}

func TestARunIsAskedForByHTTP(t *testing.T) {
	t.Parallel()
	w := openWith(t, "sources:\n  night: {type: memory, schedule: 'off'}\n  day: {type: memory}\n", true)
	feed := w.space.Feed("night")
	eventually(t, "a first run", func() bool {
		return w.client.Call(t.Context(), "POST", "/api/sources/night/extract", nil, nil) == nil
	})
	feed.Pause()
	feed.Append(connectors.Change{Op: connectors.Insert, Table: &connectors.Table{Schema: "public", Name: "t", Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}},
		After: []connectors.Value{connectors.IntValue(1)}})
	w.call(t, "POST", "/api/sources/night/extract?wait=no", nil, nil)
	if problem := w.refuse(t, http.StatusConflict, "POST", "/api/sources/night/extract", nil); !strings.Contains(problem, "goes on already") {
		t.Errorf("a second run at once: %s", problem)
	}
	feed.Resume()
	var s pipeline.Status
	eventually(t, "the end of the run", func() bool {
		w.call(t, "GET", "/api/status", nil, &s)
		return s.Sources[0].State == pipeline.CaughtUp && !s.Sources[0].LastRun.IsZero()
	})
	if s.Sources[0].Schedule != "off" || !s.Sources[0].NextRun.IsZero() {
		t.Errorf("status: %+v", s.Sources[0])
	}
	w.refuse(t, http.StatusNotImplemented, "POST", "/api/sources/day/extract", nil)
	w.refuse(t, http.StatusNotFound, "POST", "/api/sources/dusk/extract", nil)
}

// TestATokenIsAskedFor: everything but that the process lives is for those who know it, wherever they are.
func TestATokenIsAskedFor(t *testing.T) {
	t.Parallel()
	w := openWith(t, "sources:\n  night: {type: memory, schedule: 'off'}\n", true)
	const token = "0123456789abcdef"
	daemon := httptest.NewServer(api.New(api.Options{Pipeline: w.pipeline, Journal: w.journal, Version: "test", Token: token}))
	defer daemon.Close()
	request := func(method, path, authorization string) (int, http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), method, daemon.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = "etl.example:8080"; authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		answer, err := daemon.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, answer.Header
	}
	for _, path := range []string{"/", "/readyz", "/metrics", "/api/info", "/api/status", "/api/topics/x/records", "/nothing"} {
		for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Bearer " + token + "0", "Basic " + token, token} {
			if code, header := request("GET", path, wrong); code != http.StatusUnauthorized || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s with %q = %d", path, wrong, code)
			}
		}
	}
	if code, _ := request("GET", "/healthz", ""); code != http.StatusOK {
		t.Errorf("/healthz = %d", code)
	}
	for _, right := range []string{"Bearer " + token, "bearer " + token} {
		if code, _ := request("GET", "/api/status", right); code != http.StatusOK {
			t.Errorf("with %q = %d", right, code)
		}
	}
	const extract = "/api/sources/night/extract"
	if code, _ := request("POST", extract, ""); code != http.StatusUnauthorized {
		t.Errorf("a run without a token = %d", code)
	}
	eventually(t, "a first run", func() bool {
		code, _ := request("POST", extract, "Bearer "+token)
		return code == http.StatusOK
	})
	feed := w.space.Feed("night")
	feed.Pause()
	feed.Append(connectors.Change{Op: connectors.Insert, Table: &connectors.Table{Schema: "public", Name: "t", Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}},
		After: []connectors.Value{connectors.IntValue(1)}})
	if code, _ := request("POST", extract+"?wait=no", "Bearer "+token); code != http.StatusOK {
		t.Errorf("a run = %d", code)
	}
	if code, _ := request("POST", extract, "Bearer "+token); code != http.StatusConflict {
		t.Errorf("a run while one goes on = %d", code)
	}
	feed.Resume()
	client := api.Dial(strings.TrimPrefix(daemon.URL, "http://"), token, nil)
	defer client.Close()
	if err := client.Call(t.Context(), "GET", "/api/info", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	t.Parallel()
	w := open(t, false)
	for from, want := range map[string]int{"127.0.0.1:5000": 200, "[::1]:5000": 200, "192.0.2.1:5000": 403, "": 403} {
		r := httptest.NewRequest("GET", "http://localhost/debug/pprof/goroutine?debug=1", nil)
		r.RemoteAddr = from
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r)
		if answer.Code != want {
			t.Errorf("from %q: %d, want %d", from, answer.Code, want)
		}
	}
}
