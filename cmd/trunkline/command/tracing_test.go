package command

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/trunkline/trunkline/pipeline/config"
)

// deaf is a collector that takes nothing while it has an error.
type deaf struct{ err error }

func (d *deaf) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return d.err }

func (d *deaf) Shutdown(context.Context) error { return nil }

func TestThatTracesAreLostIsSaidOnceAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cfg := config.Config{Tracing: &config.Tracing{Headers: map[string]string{"Authorization": "Bearer hunter2-secret"}}}
	collector := &deaf{errors.New("401: no such token: hunter2-secret\n" + strings.Repeat("<p>page</p>", 100))}
	post := &courier{SpanExporter: collector, logger: newLogger(&out, slog.LevelInfo, false), hide: hideHeaders(cfg)}
	spans := tracetest.SpanStubs{{}, {}}.Snapshots()
	send := func() {
		t.Helper()
		if err := post.ExportSpans(t.Context(), spans); err != nil {
			t.Error(err)
		}
	}
	for range 10 {
		send()
	}
	said := out.String()
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, "traces cannot be sent") || !strings.Contains(said, "401: no such token: …") {
		t.Errorf("it says\n%s", said)
	}
	if strings.Contains(said, "hunter2") || len(said) > 2*maxComplaint {
		t.Errorf("it says too much:\n%s", said)
	}
	collector.err = nil
	send()
	send()
	if said := out.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "traces are sent again") || !strings.Contains(said, "lost=20") {
		t.Errorf("it says\n%s", said)
	}
	collector.err = errors.New("away")
	send()
	if said := out.String(); strings.Count(said, "\n") != 2 {
		t.Errorf("what comes and goes is said each time:\n%s", said)
	}
	post.last = post.last.Add(-2 * complainEvery)
	send()
	if said := out.String(); strings.Count(said, "\n") != 3 || !strings.Contains(said, "lost=4") {
		t.Errorf("it says\n%s", said)
	}
}

func TestTheEndDoesNotWaitForACollectorThatHangs(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-ended // it answers when the test is over
	}))
	defer server.Close()
	defer close(ended)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(server.URL), otlptracehttp.WithTimeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	post := &courier{SpanExporter: exporter, logger: newLogger(&out, slog.LevelInfo, false), hide: func(s string) string { return s }, drain: 50 * time.Millisecond}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(post, sdktrace.WithBatchTimeout(time.Millisecond), sdktrace.WithExportTimeout(time.Hour)))
	_, span := provider.Tracer("test").Start(t.Context(), "ingest")
	span.End()
	<-asked
	post.close(provider) // with an hour for the request, this returns only because its own time is bounded
	if said := out.String(); !strings.Contains(said, "did not take the last ones within 50ms") {
		t.Errorf("it says %q", said)
	}
}

func TestCheckAsksTheCollector(t *testing.T) {
	t.Parallel()
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "hunter2-secret" || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		http.Error(w, r.Header.Get("X-Key"), code)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "pipelines.yaml")
	text := "tracing:\n  endpoint: " + server.URL + "\n  headers: {X-Key: hunter2-secret}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		var out bytes.Buffer
		if got := Run(t.Context(), Options{}, []string{"check", "--connect", "-f", file}, nil, &out, &out); got != exitDone {
			t.Errorf("check ended with %d", got)
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "hunter2") {
			t.Errorf("check says\n%s\nwant %s", out.String(), want)
		}
	}
	check("info     tracing endpoint: connection: all is well")
	code = http.StatusUnauthorized
	check("warning  tracing endpoint: collector: it answers 401 Unauthorized; look at tracing.endpoint")
	server.Close()
	check("warning  tracing endpoint: collector: ")
}
