package http

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/secure"
)

// Format is what a body is made of.
type Format string

// The formats.
const (
	JSON        Format = "json"
	Lines       Format = "ndjson"
	CloudEvents Format = "cloudevents"
)

// Send says how many changes a request carries.
type Send string

// The choices.
const (
	Batches Send = "batch"
	Events  Send = "event"
)

// SinkConfig is the settings of a sink of type http.
type SinkConfig struct {
	// URL is where requests go. {topic} and {partition} stand for what they say; with send: event also {schema}, {table},
	// {database}, {op}, {key} (its JSON) and {offset}. What is put in is escaped.
	URL     string            `yaml:"url"`
	Method  string            `yaml:"method"`  // POST | PUT | PATCH; POST
	Headers map[string]string `yaml:"headers"` // their values may hold what URL may hold
	Format  Format            `yaml:"format"`  // json | ndjson | cloudevents; json

	// Send is batch (a request carries the changes of a batch, as a list) or event (one each). Default batch.
	Send Send `yaml:"send"`

	// Parallel is how many requests of send: event are under way at once; changes of one key go one after the other. 1.
	Parallel int `yaml:"parallel"`

	Secret  string        `yaml:"secret"`  // signs every request as Standard Webhooks says; none
	Timeout time.Duration `yaml:"timeout"` // of one request; 30s
	Retry   time.Duration `yaml:"retry"`   // how long a request is tried before the batch is given back; 1m

	secure.TLS `yaml:",inline"`
}

const maxParallel = 256

// Connector returns the type http.
func Connector() connectors.Connector {
	return connectors.AddSource(connectors.NewSink("http", decodeSink, open, check), decodeSource, openSource, checkSource)
}

func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{Method: http.MethodPost, Format: JSON, Send: Batches, Parallel: 1, Timeout: 30 * time.Second, Retry: time.Minute}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SinkConfig) Validate() error {
	errs := []error{c.TLS.Validate()}
	if u, err := url.Parse(c.fill(c.URL, &message{})); c.URL == "" || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		errs = append(errs, errors.New("url is not http://host/path or https://host/path"))
	}
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, c.Method) {
		errs = append(errs, errors.New("method is not one of POST, PUT, PATCH"))
	}
	if !slices.Contains([]Format{JSON, Lines, CloudEvents}, c.Format) {
		errs = append(errs, errors.New("format is not one of json, ndjson, cloudevents"))
	}
	if c.Send != Batches && c.Send != Events {
		errs = append(errs, errors.New("send is not one of batch, event"))
	}
	if c.Parallel < 1 || c.Parallel > maxParallel {
		errs = append(errs, fmt.Errorf("parallel must be from 1 to %d", maxParallel))
	} else if c.Parallel > 1 && c.Send == Batches {
		errs = append(errs, errors.New("parallel is for send: event"))
	}
	if c.Timeout <= 0 || c.Retry < 0 {
		errs = append(errs, errors.New("timeout must be above 0, and retry not below"))
	}
	errs = append(errs, c.checkTemplate("url", c.URL))
	for name, value := range c.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n") || strings.ContainsAny(value, "\r\n") {
			errs = append(errs, errors.New("headers has an entry that is no name and value"))
		}
		errs = append(errs, c.checkTemplate("headers", value))
	}
	return errors.Join(errs...)
}

// checkTemplate reports a name in braces that stands for nothing.
func (c *SinkConfig) checkTemplate(setting, text string) error {
	names := []string{"topic", "partition"}
	if c.Send == Events {
		names = append(names, "schema", "table", "database", "op", "key", "offset")
	}
	for {
		_, after, ok := strings.Cut(text, "{")
		if !ok {
			return nil
		}
		name, rest, _ := strings.Cut(after, "}")
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s has {%s}, which is not one of {%s}", setting, name, strings.Join(names, "}, {"))
		}
		text = rest
	}
}
