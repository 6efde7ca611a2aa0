package http_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/http"
)

// free returns an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func hooks(t *testing.T, address string, paths ...http.Path) *http.SourceConfig {
	t.Helper()
	var c *http.SourceConfig
	_, err := http.Connector().Source(func(into any) error {
		c = into.(*http.SourceConfig)
		c.Listen, c.Paths, c.Timeout = address, paths, 2*time.Minute
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openSource(t *testing.T, c *http.SourceConfig) connectors.OpenSource {
	t.Helper()
	open, err := http.Connector().Source(func(into any) error {
		*into.(*http.SourceConfig) = *c
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// answer is what a request was answered.
type answer struct {
	status int
	body   string
	err    error
}

// post sends a request, and returns where its answer comes.
func post(ctx context.Context, url, body string, headers ...string) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		client := &nethttp.Client{Transport: &nethttp.Transport{DisableKeepAlives: true}}
		q, err := nethttp.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
		if err != nil {
			out <- answer{err: err}
			return
		}
		for i := 0; i < len(headers); i += 2 {
			q.Header.Set(headers[i], headers[i+1])
		}
		r, err := client.Do(q)
		if err != nil {
			out <- answer{err: err}
			return
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		out <- answer{r.StatusCode, string(text), err}
	}()
	return out
}

func await(t *testing.T, from <-chan answer, status int) string {
	t.Helper()
	select {
	case a := <-from:
		if a.err != nil || a.status != status {
			t.Fatalf("answered %d %s (%v), want %d", a.status, a.body, a.err, status)
		}
		return a.body
	case <-time.After(2 * time.Minute):
		t.Fatalf("no answer, want %d", status)
	}
	return ""
}

func TestSourceConformance(t *testing.T) {
	conformance.RunSource(t, conformance.SourceCase{Pushed: true, New: func(t *testing.T) conformance.SourceSystem {
		c := hooks(t, free(t), http.Path{Path: "/in/{table}", Table: "shop.{table}"})
		return conformance.SourceSystem{
			Open: openSource(t, c), Table: "shop.item",
			Insert: func(t *testing.T, ids ...int) {
				var rows []string
				for _, id := range ids {
					rows = append(rows, fmt.Sprintf(`{"id":%d,"v":"v%[1]d"}`, id))
				}
				body := "[" + strings.Join(rows, ",") + "]"
				go func() { // until the source is open
					for t.Context().Err() == nil {
						if a := <-post(t.Context(), "http://"+c.Listen+"/in/item", body); a.err == nil {
							return
						}
					}
				}()
			},
		}
	}})
}

// running is an open source whose batches a test takes one by one.
type running struct {
	t *testing.T
	connectors.Source
	url  string
	rows []string
}

func run(t *testing.T, c *http.SourceConfig, from connectors.Position) *running {
	t.Helper()
	env := connectors.NewEnv("hooks")
	env.Limits.RowBytes = 8 << 10
	s, err := openSource(t, c)(t.Context(), env, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return &running{t: t, Source: s, url: "http://" + c.Listen}
}

// read returns the position of the next batch.
func (r *running) read() connectors.Position {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	b, err := r.Read(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range b.Changes {
		line := connectors.AppendLine(nil, "", &c)
		_, rest, _ := strings.Cut(strings.TrimSpace(string(line)), `"schema":`)
		r.rows = append(r.rows, rest)
	}
	return bytes.Clone(b.Position)
}

func (r *running) ack(p connectors.Position) {
	r.t.Helper()
	if err := r.Ack(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
}

func TestAnswersOnceDurable(t *testing.T) {
	t.Parallel()
	c := hooks(t, free(t), http.Path{Path: "/orders", Headers: map[string]string{"event": "X-Event"}}, http.Path{Path: "/changes", Content: "changes"})
	r := run(t, c, nil)
	first := post(t.Context(), r.url+"/orders", `{"id":1,"lines":[{"sku":"a"}]}`, "X-Event", "paid", "Idempotency-Key", "k1")
	at := r.read()
	again := post(t.Context(), r.url+"/orders", `{"id":1}`, "Idempotency-Key", "k1") // the same one is under way
	second := post(t.Context(), r.url+"/orders", ` [{"id":2} , {"id":3}] `)
	next := r.read()
	for len(r.rows) < 3 {
		next = r.read()
	}
	select {
	case a := <-first:
		t.Fatalf("answered %d before it is durable", a.status)
	default:
	}
	r.ack(at)
	await(t, first, 200)
	r.ack(next)
	await(t, second, 200)
	// The repeated one may come to the reader behind the others.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if b, err := r.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%d changes (%v) for a key that came before", len(b.Changes), err)
		}
	}()
	await(t, again, 200)
	cancel()
	<-ended
	change := post(t.Context(), r.url+"/changes", `{"op":"d","schema":"main","table":"item","key":{"id":7}}`)
	at = r.read()
	r.ack(at)
	await(t, change, 200)
	want := []string{
		`"","table":"orders","key":null,"before":null,"after":{"event":"paid","id":1,"lines":"[{\"sku\":\"a\"}]"},"unchanged":[]}`,
		`"","table":"orders","key":null,"before":null,"after":{"event":null,"id":2,"lines":null},"unchanged":[]}`,
		`"","table":"orders","key":null,"before":null,"after":{"event":null,"id":3,"lines":null},"unchanged":[]}`,
		`"main","table":"item","key":{"id":7},"before":{"id":7},"after":null,"unchanged":[]}`,
	}
	if strings.Join(r.rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(r.rows, "\n"), strings.Join(want, "\n"))
	}
	t.Run("a key is known after a restart", func(t *testing.T) {
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := run(t, c, at)
		repeated := post(t.Context(), r.url+"/orders", `{"id":1}`, "Idempotency-Key", "k1")
		fresh := post(t.Context(), r.url+"/orders", `{"id":4}`, "Idempotency-Key", "k2")
		r.ack(r.read())
		await(t, fresh, 200)
		if len(r.rows) != 1 || !strings.Contains(r.rows[0], `"after":{"event":null,"id":4,"lines":null}`) {
			t.Errorf("rows %s", r.rows)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.Read(ctx)
		await(t, repeated, 200)
		cancel()
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	keyed := http.Path{Path: "/keyed"}
	keyed.Key = []string{"id"}
	c := hooks(t, free(t), http.Path{Path: "/open"}, http.Path{Path: "/signed", Signature: http.Bearer, Secret: "correct-horse"}, keyed, http.Path{Path: "/in/{table}"})
	c.Limits.Body, c.Limits.Waiting = 1000, 1500
	r := run(t, c, nil)
	for name, q := range map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"no path":            {"/other", "{}", 404, "nothing is taken"},
		"a path below":       {"/open/x", "{}", 404, "nothing is taken"},
		"no name of a table": {"/in/a.b", "{}", 404, "nothing is taken"},
		"no JSON":            {"/open", "{secret", 400, "not one JSON value"},
		"two values":         {"/open", "{} {}", 400, "not one JSON value"},
		"a number":           {"/open", "5", 400, "neither a JSON object nor a list"},
		"a list of numbers":  {"/open", `[{},"secret"]`, 400, "object 2 of the list is none"},
		"no signature":       {"/signed", `{"id":1}`, 401, "signature is missing"},
		"above the limit":    {"/open", `{"v":"` + strings.Repeat("x", 1000) + `"}`, 413, "above 1000B"},
		"nothing, unsigned":  {"/signed", "", 401, "signature is missing"},
		"nothing":            {"/open", "", 400, "not one JSON value"},
	} {
		if text := await(t, post(t.Context(), r.url+q.path, q.body), q.status); !strings.Contains(text, q.says) || strings.Contains(text, "secret") {
			t.Errorf("%s: answered %s, want %s", name, text, q.says)
		}
	}
	q, err := nethttp.Get(r.url + "/open")
	if err != nil {
		t.Fatal(err)
	}
	if q.Body.Close(); q.StatusCode != 405 {
		t.Errorf("GET is answered %d, want 405", q.StatusCode)
	}
	bad := post(t.Context(), r.url+"/keyed", `[{"id":1},{"v":"secret"}]`)
	big := post(t.Context(), r.url+"/open", `{"v":"`+strings.Repeat("x", 900)+`"}`)
	at := r.read()
	for len(r.rows) == 0 {
		at = r.read()
	}
	if text := await(t, post(t.Context(), r.url+"/open", `{"v":"`+strings.Repeat("y", 900)+`"}`), 429); !strings.Contains(text, "too many") {
		t.Error(text)
	}
	r.ack(at)
	await(t, big, 200)
	last := post(t.Context(), r.url+"/open", `{"v":"z"}`)
	r.read()
	if text := await(t, bad, 422); !strings.Contains(text, "object 2: no value for the key column id") {
		t.Error(text)
	}
	if len(r.rows) != 2 {
		t.Errorf("%d rows, want 2: of a request with a bad one, none", len(r.rows))
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	await(t, last, 503)
	t.Run("a row above max_record_bytes", func(t *testing.T) {
		c := hooks(t, free(t), http.Path{Path: "/open"})
		r := run(t, c, nil)
		large := post(t.Context(), r.url+"/open", `{"v":["`+strings.Repeat("x", 5000)+`"]}`)
		small := post(t.Context(), r.url+"/open", `{"v":["`+strings.Repeat("x", 2000)+`"]}`)
		at := r.read()
		for len(r.rows) == 0 {
			at = r.read()
		}
		r.ack(at)
		await(t, small, 200)
		ctx, cancel := context.WithCancel(t.Context())
		go r.Read(ctx)
		if text := await(t, large, 422); !strings.Contains(text, "max_record_bytes") {
			t.Error(text)
		}
		cancel()
	})
}

func TestSourceSettings(t *testing.T) {
	t.Parallel()
	path := func(set func(*http.Path)) func(*http.SourceConfig) {
		return func(c *http.SourceConfig) { set(&c.Paths[0]) }
	}
	for problem, set := range map[string]func(*http.SourceConfig){
		"listen is not host:port":            func(c *http.SourceConfig) { c.Listen = "8090" },
		"reachable from other machines":      func(c *http.SourceConfig) { c.Listen = "0.0.0.0:8090" },
		"listen_tls needs both":              func(c *http.SourceConfig) { c.ListenTLS.Key = "x" },
		"paths is missing":                   func(c *http.SourceConfig) { c.Paths = nil },
		"paths has /orders twice":            func(c *http.SourceConfig) { c.Paths = append(c.Paths, c.Paths[0]) },
		"timeout must be":                    func(c *http.SourceConfig) { c.Timeout = 0 },
		"body must be above 0":               func(c *http.SourceConfig) { c.Limits.Waiting = 1 },
		"path is not one like":               path(func(p *http.Path) { p.Path = "orders" }),
		"path has no last part":              path(func(p *http.Path) { p.Path = "/orders/" }),
		"content is not one":                 path(func(p *http.Path) { p.Content = "x" }),
		"signature is not one of":            path(func(p *http.Path) { p.Signature = "md5" }),
		"secret is set and signature is not": path(func(p *http.Path) { p.Secret = "correct-horse" }),
		"secret is shorter":                  path(func(p *http.Path) { p.Signature, p.Secret = http.HMAC, "x" }),
	} {
		_, err := http.Connector().Source(func(into any) error {
			c := into.(*http.SourceConfig)
			c.Listen, c.Paths = "127.0.0.1:8090", []http.Path{{Path: "/orders"}}
			set(c)
			return c.Validate()
		})
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v, want %s", err, problem)
		}
	}
}
