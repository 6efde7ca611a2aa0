package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// Scheme says how a request shows that it comes from who it should.
type Scheme string

// The schemes.
const (
	Unsigned Scheme = "none"
	HMAC     Scheme = "hmac"     // a header with the HMAC-SHA256 of the body
	GitHub   Scheme = "github"   // that in X-Hub-Signature-256
	Stripe   Scheme = "stripe"   // Stripe-Signature: of a time and the body
	Standard Scheme = "standard" // Standard Webhooks: of an id, a time and the body
	Bearer   Scheme = "bearer"   // Authorization: Bearer and the secret itself
)

// SourceConfig is the settings of a source of type http.
type SourceConfig struct {
	Listen    string   `yaml:"listen"`     // host:port, for this source alone
	ListenTLS Pair     `yaml:"listen_tls"` // none: plain HTTP
	Paths     []Path   `yaml:"paths"`      // what is taken
	Limits    Inflight `yaml:"limits"`

	Timeout     time.Duration `yaml:"timeout"`      // how long a request waits for its rows to be durable; 30s
	DedupWindow time.Duration `yaml:"dedup_window"` // how long an idempotency key is remembered; 24h
	DedupKeys   int           `yaml:"dedup_keys"`   // and how many of them, in each commit; 1000
}

// Pair is a certificate with its key, both in files.
type Pair struct {
	Certificate string `yaml:"cert"`
	Key         string `yaml:"key"`
}

// Inflight bounds what requests may hold.
type Inflight struct {
	Body    connectors.Size `yaml:"body"`    // of a request; 1MiB
	Waiting connectors.Size `yaml:"waiting"` // of the bodies of all requests that have no answer yet; 64MiB
}

// Path is what is taken under a path.
type Path struct {
	document.Settings `yaml:",inline"`

	Path    string            `yaml:"path"`    // /github; /in/{table} stands for any table
	Table   string            `yaml:"table"`   // table or schema.table; the last part of the path
	Content document.Content  `yaml:"content"` // rows | changes; rows
	Headers map[string]string `yaml:"headers"` // columns that hold a header: {event: X-GitHub-Event}

	Signature   Scheme        `yaml:"signature"`   // none | hmac | github | stripe | standard | bearer; none
	Header      string        `yaml:"header"`      // hmac: the header with the signature; X-Signature
	Secret      string        `yaml:"secret"`      //
	Tolerance   time.Duration `yaml:"tolerance"`   // stripe, standard: how far the time may be from the clock; 5m
	Idempotency string        `yaml:"idempotency"` // the header whose value tells requests apart; that of the scheme, or Idempotency-Key
}

// tablePart ends a path that stands for any table.
const tablePart = "{table}"

func decodeSource(decode connectors.Decode) (*SourceConfig, error) {
	c := &SourceConfig{Timeout: 30 * time.Second, DedupWindow: 24 * time.Hour, DedupKeys: 1000, Limits: Inflight{Body: 1 << 20, Waiting: 64 << 20}}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SourceConfig) Validate() error {
	var errs []error
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		errs = append(errs, errors.New("listen is not host:port (127.0.0.1:8090)"))
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	if (c.ListenTLS.Certificate == "") != (c.ListenTLS.Key == "") {
		errs = append(errs, errors.New("listen_tls needs both cert and key"))
	}
	if len(c.Paths) == 0 {
		errs = append(errs, errors.New("paths is missing: a list of what is taken, as in paths: [{path: /orders}]"))
	}
	seen := map[string]bool{}
	for i := range c.Paths {
		p := &c.Paths[i]
		errs = append(errs, p.Validate())
		if p.Signature == Unsigned && !local && err == nil {
			errs = append(errs, fmt.Errorf("paths: the signature of %s is none, and listen is reachable from other machines: set signature and secret, or listen on a loopback address", p.Path))
		}
		if seen[p.Path] {
			errs = append(errs, fmt.Errorf("paths has %s twice", p.Path))
		}
		seen[p.Path] = true
	}
	if c.Timeout <= 0 || c.DedupWindow < 0 || c.DedupKeys < 0 || c.DedupKeys > 100_000 {
		errs = append(errs, errors.New("timeout must be above 0, dedup_window not below, and dedup_keys from 0 to 100000"))
	}
	if c.Limits.Body <= 0 || c.Limits.Waiting < c.Limits.Body {
		errs = append(errs, errors.New("limits: body must be above 0, and waiting not below it"))
	}
	return errors.Join(errs...)
}

// Validate fills in what depends on the path and the signature, and checks the rest.
func (p *Path) Validate() error {
	errs := []error{p.Settings.Validate()}
	fixed := strings.TrimSuffix(p.Path, tablePart)
	if !strings.HasPrefix(p.Path, "/") || strings.ContainsAny(fixed, "{}?# ") || fixed != p.Path && !strings.HasSuffix(fixed, "/") || p.Path == "/" && p.Table == "" {
		errs = append(errs, errors.New("path is not one like /orders or /in/{table}"))
	}
	if p.Table == "" && fixed == p.Path {
		p.Table = p.Path[strings.LastIndexByte(p.Path, '/')+1:]
	}
	if p.Table == "" && fixed == p.Path {
		errs = append(errs, errors.New("table is missing, and path has no last part"))
	}
	if p.Content == "" {
		p.Content = document.Rows
	}
	if p.Content != document.Rows && p.Content != document.Changes {
		errs = append(errs, errors.New("content is not one of rows, changes"))
	}
	if p.Signature == "" {
		p.Signature = Unsigned
	}
	switch {
	case !slices.Contains([]Scheme{Unsigned, HMAC, GitHub, Stripe, Standard, Bearer}, p.Signature):
		errs = append(errs, errors.New("signature is not one of none, hmac, github, stripe, standard, bearer"))
	case p.Signature == Unsigned && p.Secret != "":
		errs = append(errs, errors.New("secret is set and signature is not: hmac, github, stripe, standard or bearer"))
	case p.Signature != Unsigned && len(p.Secret) < minSecret:
		errs = append(errs, fmt.Errorf("secret is shorter than %d characters", minSecret))
	}
	for name, header := range p.Headers {
		if name == "" || header == "" {
			errs = append(errs, errors.New("headers has an empty name"))
		}
	}
	if p.Header == "" {
		p.Header = "X-Signature"
	}
	if p.Tolerance == 0 {
		p.Tolerance = 5 * time.Minute
	}
	if p.Idempotency == "" {
		p.Idempotency = map[Scheme]string{GitHub: "X-GitHub-Delivery", Standard: "Webhook-Id"}[p.Signature]
	}
	if p.Idempotency == "" {
		p.Idempotency = "Idempotency-Key"
	}
	return errors.Join(errs...)
}

// minSecret is the length below which a secret is refused.
const minSecret = 8

// listen opens the source's own address.
func (c *SourceConfig) listen(ctx context.Context) (net.Listener, error) {
	var settings *tls.Config
	if c.ListenTLS.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.ListenTLS.Certificate, c.ListenTLS.Key)
		if err != nil {
			return nil, fmt.Errorf("read listen_tls: %w", err)
		}
		settings = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	var l net.ListenConfig
	listener, err := l.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if settings != nil {
		return tls.NewListener(listener, settings), nil
	}
	return listener, nil
}

// checkSource looks whether the address is free, and the certificate there.
func checkSource(ctx context.Context, c *SourceConfig, _ connectors.Env) ([]connectors.Finding, error) {
	l, err := c.listen(ctx)
	if err != nil {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: "listen", Problem: err.Error(), Remedy: "stop what uses the address (a daemon of this configuration that runs does), or set another one"}}, nil
	}
	var out []connectors.Finding
	for _, p := range c.Paths {
		if p.Signature == Unsigned {
			out = append(out, connectors.Finding{Severity: connectors.Warning, Subject: p.Path, Problem: "whoever reaches the address can write", Remedy: "set signature and secret"})
		}
	}
	return out, l.Close()
}

// find returns what is taken under a path, and the table of a path that stands for any.
func (c *SourceConfig) find(path string) (at int, table string) {
	at = -1
	for i := range c.Paths {
		p := &c.Paths[i]
		if p.Path == path {
			return i, p.Table
		}
		if prefix, ok := strings.CutSuffix(p.Path, tablePart); ok {
			if rest, ok := strings.CutPrefix(path, prefix); ok && isTable(rest) {
				at, table = i, rest
				if p.Table != "" {
					table = strings.ReplaceAll(p.Table, tablePart, rest)
				}
			}
		}
	}
	return at, table
}

// isTable reports a name that may stand in a path for a table.
func isTable(name string) bool {
	return name != "" && len(name) <= 100 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// methods are what a path takes.
func takes(method string) bool { return method == http.MethodPost || method == http.MethodPut }
