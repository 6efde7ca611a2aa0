package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Client calls the API, over the network or in the same process.
type Client struct {
	base  string
	token string
	actor string // who runs this process
	http  *http.Client
}

// Dial returns a client of the daemon at address (host:port), which shows the token, if there is one, and speaks TLS where
// settings for it are given. It connects with the first call.
func Dial(address, token string, secure *tls.Config) *Client {
	base := "http://" + address
	if secure != nil {
		base = "https://" + address
	}
	return &Client{base: base, token: token, actor: actor(), http: &http.Client{Transport: &http.Transport{TLSClientConfig: secure}}}
}

// InProcess returns a client that calls the handler without a network.
func InProcess(handler http.Handler) *Client {
	return &Client{base: "http://localhost", actor: actor(), http: &http.Client{Transport: transport{handler}}}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// RefusedError is an answer other than success. Its text is the server's.
type RefusedError struct {
	Code    int // of HTTP
	Problem string
}

func (e *RefusedError) Error() string { return e.Problem }

// Path joins the parts of a path, each escaped.
func Path(parts ...string) string {
	var out bytes.Buffer
	for _, p := range parts {
		out.WriteString("/" + url.PathEscape(p))
	}
	return out.String()
}

// Call sends body as JSON, unless it is nil, and decodes the answer into out, unless it is nil.
func (c *Client) Call(ctx context.Context, method, path string, body, out any) error {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	answer, err := c.Stream(ctx, method, path, nil, reader)
	if err != nil {
		return err
	}
	defer answer.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, answer)
		return err
	}
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// Stream sends body as it comes and returns the answer as it comes. The caller closes it.
func (c *Client) Stream(ctx context.Context, method, path string, query url.Values, body io.Reader) (io.ReadCloser, error) {
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	request.Header.Set(actorHeader, c.actor)
	response, err := c.http.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRequest))
	var f failure
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		f.Error = fmt.Sprintf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	return nil, &RefusedError{Code: response.StatusCode, Problem: f.Error}
}

// Records calls each for every record of a consume answer, as it arrives.
func Records(answer io.Reader, each func(Record) error) error {
	lines := bufio.NewReaderSize(answer, 64<<10)
	for number := 1; ; number++ {
		line, err := readLine(lines)
		if len(bytes.TrimSpace(line)) > 0 {
			r, parseErr := parseRecord(line, number)
			if parseErr != nil {
				return fmt.Errorf("decode answer: %w", parseErr)
			}
			if r.Error != "" {
				return errors.New(r.Error)
			}
			if err := each(r); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
	}
}
