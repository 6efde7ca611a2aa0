package elasticsearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

const requestTimeout = 2 * time.Minute

// client speaks the REST interface that Elasticsearch and OpenSearch have in common.
type client struct {
	http *http.Client
	base string
	head http.Header
	user *url.Userinfo
}

func (c *SinkConfig) client() (*client, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("open elasticsearch: url is not a URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.TLS.TLS != "" || c.RootCert != "" || c.Cert != "" {
		if transport.TLSClientConfig, err = c.Config(u.Hostname(), "verify-full"); err != nil {
			return nil, fmt.Errorf("open elasticsearch: %w", err)
		}
	}
	out := &client{http: &http.Client{Transport: transport, Timeout: requestTimeout}, head: http.Header{}, user: u.User}
	u.User = nil
	out.base = strings.TrimSuffix(u.String(), "/")
	if c.User != "" {
		out.user = url.UserPassword(c.User, c.Password)
	}
	if c.APIKey != "" {
		out.head.Set("Authorization", "ApiKey "+c.APIKey)
	}
	return out, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// apiError is an answer that is not 2xx.
type apiError struct {
	status int
	fault
}

// fault is how the store says what is wrong, with a request or with one document.
type fault struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

// field is the part of a reason that shows no value.
var field = regexp.MustCompile(`^[a-z]+ to (parse field \[[^\]]*\] of type \[[a-z_]+\])`)

// Error leaves out the reason, which quotes values, but for the field that it names.
func (f fault) Error() string {
	if m := field.FindStringSubmatch(f.Reason); m != nil {
		return f.Type + ": " + m[1]
	}
	return f.Type
}

func (e *apiError) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("it answered %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("it answered %d: %s", e.status, e.fault.Error())
}

func isStatus(err error, status int) bool {
	var e *apiError
	return errors.As(err, &e) && e.status == status
}

// busy reports a status that passes by itself.
func busy(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// json sends a request and reads its answer into out, where that is not nil. An answer other than 2xx is an *apiError.
func (c *client) json(ctx context.Context, method, path string, body []byte, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("make request: url is not valid")
	}
	r.Header = c.head.Clone()
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(path, "/_bulk") {
			r.Header.Set("Content-Type", "application/x-ndjson")
		}
	}
	if c.user != nil {
		password, _ := c.user.Password()
		r.SetBasicAuth(c.user.Username(), password)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		e := &apiError{status: resp.StatusCode}
		var answer struct{ Error json.RawMessage }
		if json.Unmarshal(text, &answer) == nil {
			_ = json.Unmarshal(answer.Error, &e.fault) // a proxy's answer has no type
		}
		if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden && e.Type != "cluster_block_exception" {
			return fmt.Errorf("%w; check user, password or api_key and its rights: %w", e, connectors.ErrFatal)
		}
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return errors.New("read answer: it is not the JSON that was expected")
	}
	return nil
}
