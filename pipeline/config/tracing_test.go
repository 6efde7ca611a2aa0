package config

import (
	"strings"
	"testing"
)

func TestTracing(t *testing.T) {
	t.Parallel()
	const general, own = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for name, test := range map[string]struct {
		text string
		env  map[string]string
		url  string // empty: no traces
	}{
		"off by default":                  {text: "log: {listen: off}", env: map[string]string{general: "http://otel:4318"}},
		"an address":                      {text: "tracing: {endpoint: http://127.0.0.1:4318}", url: "http://127.0.0.1:4318/v1/traces"},
		"an address with a path":          {text: "tracing: {endpoint: https://otel/otlp/}", url: "https://otel/otlp/v1/traces"},
		"the whole address":               {text: "tracing: {endpoint: https://otel/v1/traces}", url: "https://otel/v1/traces"},
		"the environment's":               {text: "tracing:", env: map[string]string{general: "http://otel:4318"}, url: "http://otel:4318/v1/traces"},
		"the environment's for traces":    {text: "tracing: {sample: 1}", env: map[string]string{general: "x", own: "http://otel:4318/in"}, url: "http://otel:4318/in"},
		"the file before the environment": {text: "tracing: {endpoint: http://a:1}", env: map[string]string{own: "http://otel:4318/in"}, url: "http://a:1/v1/traces"},
		"off":                             {text: "tracing: {endpoint: \"${OTEL:-off}\"}"},
		"switched off by the environment": {text: "tracing: {endpoint: http://a:1}", env: map[string]string{"OTEL_SDK_DISABLED": "TRUE"}},
		"no sample":                       {text: "tracing: {endpoint: http://a:1, sample: 0}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, err := parse(t, test.text, test.env)
			if err != nil {
				t.Fatal(err)
			}
			if c.Tracing.Off() != (test.url == "") || !c.Tracing.Off() && c.Tracing.URL() != test.url {
				t.Errorf("%+v, want %q", c.Tracing, test.url)
			}
		})
	}
	c, _, err := parse(t, "tracing: {endpoint: http://a:1}", nil)
	if err != nil || c.Tracing.Sample != defaultSample {
		t.Errorf("sample %v, %v", c.Tracing.Sample, err)
	}
}

func TestTracingErrorsNameTheLineAndNoSecret(t *testing.T) {
	t.Parallel()
	env := map[string]string{"TOKEN": "hunter2-secret\nX-Evil: 1", "OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://me:hunter2-secret@otel"}
	for text, want := range map[string]string{
		"tracing:\n  endpoint: 127.0.0.1:4318":                                              "p.yaml:2: tracing.endpoint: is not one such as http://127.0.0.1:4318",
		"tracing:\n  endpoint: http://me:hunter2-secret@otel:4318":                          "p.yaml:2: tracing.endpoint: has a login in it",
		"tracing:\n  endpoint: http://a:1\n  sample: 1%":                                    `p.yaml:3: tracing.sample: expected a number, found "1%"`,
		"tracing:\n  endpoint: http://a:1\n  sample: 2":                                     "p.yaml:3: tracing.sample: must be from 0 to 1",
		"tracing:\n  endpoint: http://a:1\n  sample: NaN":                                   "p.yaml:3: tracing.sample: must be from 0 to 1",
		"tracing:\n  endpoint: http://a:1\n  header: {a: b}":                                `p.yaml:3: tracing.header: unknown key; did you mean "headers"?`,
		"tracing:\n  endpoint: http://a:1\n  headers: {Authorization: \"Bearer ${TOKEN}\"}": "p.yaml:3: tracing.headers: has no value for Authorization that could be sent",
		"tracing:\n  endpoint: http://a:1\n  headers: {\"a b\": c}":                         "p.yaml:3: tracing.headers: has an entry whose name is no name of a header",
		"tracing: {sample: 1}":                                                              "p.yaml:1: tracing: endpoint is missing, and what OTEL_EXPORTER_OTLP_ENDPOINT holds in its place is not one such as",
		"tracing: off":                                                                      "p.yaml:1: tracing: expected keys with values",
	} {
		_, _, err := parse(t, text, env)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  gives %v\n  want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a secret shows: %v", err)
		}
	}
	_, _, err := parse(t, "tracing: {sample: 1}", nil)
	if err == nil || !strings.Contains(err.Error(), "endpoint is missing: the collector's address") {
		t.Errorf("without an address: %v", err)
	}
}
