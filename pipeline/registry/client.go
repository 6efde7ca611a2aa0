package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// requestTimeout bounds one request to a registry elsewhere.
const requestTimeout = 30 * time.Second

// Client registers schemas in a registry elsewhere.
type Client struct {
	URL      string // http://registry:8081
	User     string // empty: no login
	Password string
	Token    string // sent as bearer, in place of user and password
	HTTP     *http.Client
}

// Register returns the id of a schema, which becomes a version of the subject unless it is one.
func (c *Client) Register(ctx context.Context, subject string, s Schema) (int32, error) {
	id, err := c.register(ctx, subject, s)
	if err != nil {
		return 0, fmt.Errorf("register schema of %s in %s: %w", subject, c.URL, err)
	}
	return id, nil
}

func (c *Client) register(ctx context.Context, subject string, s Schema) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body := map[string]any{"schema": s.Text}
	if kind := named(s.Type); kind != "" {
		body["schemaType"] = kind
	}
	if len(s.References) > 0 {
		body["references"] = s.References
	}
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	at := strings.TrimSuffix(c.URL, "/") + "/subjects/" + url.PathEscape(subject) + "/versions"
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	q.Header.Set("Content-Type", mediaType)
	q.Header.Set("Accept", mediaType)
	switch {
	case c.Token != "":
		q.Header.Set("Authorization", "Bearer "+c.Token)
	case c.User != "":
		q.SetBasicAuth(c.User, c.Password)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(q)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxSchema))
	if err != nil {
		return 0, err
	}
	var got struct {
		ID      int32  `json:"id"`
		Message string `json:"message"`
	}
	malformed := json.Unmarshal(text, &got)
	switch {
	case answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusRequestTimeout && answer.StatusCode != http.StatusTooManyRequests:
		return 0, fmt.Errorf("it answers %s: %s: %w", answer.Status, got.Message, connectors.ErrFatal)
	case answer.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("it answers %s: %s", answer.Status, got.Message)
	case malformed != nil || got.ID <= 0:
		return 0, fmt.Errorf("it answers without an id")
	}
	return got.ID, nil
}
