package config

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// Tracing says where traces of batches are sent: to a collector of OpenTelemetry, by OTLP over HTTP. A file without the
// key tracing sends none.
type Tracing struct {
	Endpoint string            `yaml:"endpoint"` // of the collector, http://127.0.0.1:4318; default: OpenTelemetry's variables; off
	Sample   float64           `yaml:"sample"`   // the share of batches that is traced, from 0 to 1; 0.01
	Service  string            `yaml:"service"`  // the name under which the traces are found; OTEL_SERVICE_NAME, else trunkline
	Headers  map[string]string `yaml:"headers"`  // of every request, for a collector that asks who sends

	whole bool // Endpoint is the address of the requests themselves
}

// defaultSample is the share of batches that is traced where the file does not say it.
const defaultSample = 0.01

// The variables of OpenTelemetry's specification that name a collector: the first its address for traces, as it is, the
// second the one below which the signals have their paths.
var endpointVariables = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// disabledVariable switches every program with OpenTelemetry in it off, whatever else is set.
const disabledVariable = "OTEL_SDK_DISABLED"

// tracesPath is where a collector takes traces (https://opentelemetry.io/docs/specs/otlp/#otlphttp-request).
const tracesPath = "/v1/traces"

// inherit takes the address from the environment if the file has none. A program with OpenTelemetry's variables set sends
// nothing for their sake alone: the file has the key tracing, or there are no traces.
func (t *Tracing) inherit(lookup func(string) (string, bool)) (from string) {
	if t.Endpoint != "" {
		return ""
	}
	for _, name := range endpointVariables {
		if value, _ := lookup(name); value != "" {
			t.Endpoint, t.whole = value, name == endpointVariables[0]
			return name
		}
	}
	return ""
}

// Off reports that no traces are sent.
func (t *Tracing) Off() bool { return t == nil || t.Endpoint == Off || t.Sample == 0 }

// URL returns the address to which the requests go.
func (t *Tracing) URL() string {
	base := strings.TrimSuffix(t.Endpoint, "/")
	if t.whole || strings.HasSuffix(base, tracesPath) {
		return t.Endpoint
	}
	return base + tracesPath
}

// Validate checks what the file says. The address may come from the environment, and is checked with it.
func (t *Tracing) Validate() error {
	var errs []error
	if t.Endpoint != "" {
		if err := checkCollector(t.Endpoint); err != nil {
			errs = append(errs, fmt.Errorf("endpoint %w", err))
		}
	}
	if !(t.Sample >= 0 && t.Sample <= 1) { // as it stands, NaN is refused too
		errs = append(errs, errors.New("sample must be from 0 to 1: the share of batches that is traced"))
	}
	for name, value := range t.Headers {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }) {
			errs = append(errs, errors.New("headers has an entry whose name is no name of a header"))
		} else if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			errs = append(errs, fmt.Errorf("headers has no value for %s that could be sent", name))
		}
	}
	return errors.Join(errs...)
}

// checkCollector checks an address. A login belongs into a header: addresses show in what people see.
func checkCollector(endpoint string) error {
	if endpoint == Off {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("is not one such as http://127.0.0.1:4318")
	}
	if u.User != nil {
		return errors.New("has a login in it; put it into headers: {Authorization: …}")
	}
	return nil
}

// tracing reads the key tracing.
func (d *decoder) tracing(n *yaml.Node) *Tracing {
	t, found := &Tracing{Sample: defaultSample}, len(d.errs)
	d.value(n, reflect.ValueOf(t).Elem(), "tracing")
	if len(d.errs) > found {
		return t
	}
	if disabled, _ := d.in.lookup(disabledVariable); strings.EqualFold(disabled, "true") {
		t.Endpoint = Off
	}
	from := t.inherit(d.in.lookup)
	switch {
	case t.Endpoint == "":
		d.fail(n.Line, "tracing", "endpoint is missing: the collector's address, such as http://127.0.0.1:4318, here or in "+endpointVariables[1])
	case from != "":
		if err := checkCollector(t.Endpoint); err != nil {
			d.fail(n.Line, "tracing", fmt.Sprintf("endpoint is missing, and what %s holds in its place %v", from, err))
		}
	}
	return t
}
