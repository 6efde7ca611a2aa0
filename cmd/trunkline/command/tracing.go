package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/trace"
)

const (
	// drainTraces bounds how long the end of the program waits for the last traces to be taken.
	drainTraces = 5 * time.Second
	// complainEvery is how often it is said that traces cannot be sent.
	complainEvery = 5 * time.Minute
	// maxComplaint bounds what is said of an error, in bytes: a collector may answer with a page.
	maxComplaint = 300
	// minHidden is the shortest part of a header that is looked for in text: shorter ones are part of ordinary words.
	minHidden = 4
)

// openTracer begins to send traces as the configuration says. Without the key tracing the tracer is nil, and nothing of
// OpenTelemetry runs. The queue has room for 2048 spans (OTEL_BSP_MAX_QUEUE_SIZE); what it has no room for is dropped, so
// that a collector that is slow or away holds nothing up. close sends what is left, in bounded time.
func (a *app) openTracer(ctx context.Context, cfg config.Config, logger *slog.Logger) (tracer *trace.Tracer, close func(), err error) {
	t := cfg.Tracing
	if t.Off() {
		return nil, func() {}, nil
	}
	post := &courier{logger: logger, hide: hideHeaders(cfg), drain: drainTraces}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { post.complain(err, 0) }))
	otel.SetLogger(logr.Discard()) // it quotes variables that it cannot read, and these may be secret
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(t.URL())}
	if len(t.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(t.Headers))
	}
	if post.SpanExporter, err = otlptracehttp.New(ctx, options...); err != nil {
		return nil, nil, fmt.Errorf("prepare traces: %s", post.hide(err.Error()))
	}
	about, err := a.resource(ctx, t)
	if err != nil { // what could be read of it counts
		logger.Warn("a variable of OpenTelemetry that describes this process cannot be read", "variable", "OTEL_RESOURCE_ATTRIBUTES")
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(post), sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(t.Sample))),
	)
	logger.Info("sending traces", "to", post.hide(t.URL()), "sample", t.Sample)
	return trace.New(provider), func() { post.close(provider) }, nil
}

// resource describes the process to whoever reads its traces. What the file says counts more than the environment, and
// that more than what is true of every Trunkline.
func (a *app) resource(ctx context.Context, t *config.Tracing) (*resource.Resource, error) {
	options := []resource.Option{
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "trunkline"), attribute.String("service.version", a.version),
			attribute.String("service.instance.id", uuid.NewString())),
		resource.WithFromEnv(),
	}
	if t.Service != "" {
		options = append(options, resource.WithAttributes(attribute.String("service.name", t.Service)))
	}
	return resource.New(ctx, options...)
}

// hideHeaders returns what takes the values of headers out of text, beside all other secrets.
func hideHeaders(cfg config.Config) func(string) string {
	var words []string
	for value := range maps.Values(cfg.Tracing.Headers) {
		words = append(append(words, value), strings.Fields(value)...)
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) }) // one that holds another goes whole
	var pairs []string
	for _, word := range words {
		if len(word) >= minHidden {
			pairs = append(pairs, word, "…")
		}
	}
	headers := strings.NewReplacer(pairs...)
	return func(text string) string { return cfg.Secrets.Hide(headers.Replace(text)) }
}

// courier hands spans to the collector and tells people, once in a while, when that does not work.
type courier struct {
	sdktrace.SpanExporter
	logger *slog.Logger
	hide   func(string) string
	drain  time.Duration // how long close waits

	mu   sync.Mutex
	said time.Time // when it was last said that traces cannot be sent; zero: they can
	last time.Time // the same, and it stays once they can
	lost int       // spans since then
}

// ExportSpans sends spans. Those that the collector does not take are lost.
func (c *courier) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := c.SpanExporter.ExportSpans(ctx, spans); err != nil {
		c.complain(err, len(spans))
		return nil // it has been said
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.said.IsZero() {
		c.logger.Info("traces are sent again", "lost", c.lost)
		c.said, c.lost = time.Time{}, 0
	}
	return nil
}

// complain says that traces cannot be sent, unless it was said a short while ago.
func (c *courier) complain(err error, spans int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost += spans
	now := time.Now()
	if !c.last.IsZero() && now.Sub(c.last) < complainEvery {
		return
	}
	c.said, c.last = now, now
	text := c.hide(strings.Join(strings.Fields(err.Error()), " "))
	if len(text) > maxComplaint {
		text = strings.ToValidUTF8(text[:maxComplaint], "") + "…"
	}
	c.logger.Warn("traces cannot be sent and are lost; rows are not held up by it", "error", text, "lost", c.lost)
}

// close sends what is left, for as long as the program's end may wait for that.
func (c *courier) close(provider *sdktrace.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), c.drain)
	defer cancel()
	err := provider.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		c.complain(fmt.Errorf("the collector did not take the last ones within %v", c.drain), 0)
	}
	_ = c.SpanExporter.Shutdown(context.Background()) // ends a request that still waits
}

// checkTracing asks the collector to take an empty request, as it takes those with traces.
func checkTracing(ctx context.Context, cfg config.Config) ([]connectors.Finding, error) {
	hide := hideHeaders(cfg)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.Tracing.URL(), bytes.NewReader(nil))
	if err != nil {
		return nil, errors.New(hide(err.Error()))
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	for name, value := range cfg.Tracing.Headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return []connectors.Finding{{Severity: connectors.Warning, Subject: "collector", Problem: hide(err.Error()),
			Remedy: "start the collector or put tracing.endpoint right; rows flow without it, and their traces are lost"}}, nil
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection ends in good order
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return []connectors.Finding{{Severity: connectors.Warning, Subject: "collector", Problem: "it answers " + answer.Status,
			Remedy: "look at tracing.endpoint, which is the address of OTLP over HTTP (port 4318 by default), and at tracing.headers"}}, nil
	}
	return nil, nil
}
