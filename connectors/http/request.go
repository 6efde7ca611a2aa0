package http

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// message is a change on its way.
type message struct {
	stream string
	change *connectors.Change
	index  int // in the batch
	nth    int // of the changes with the same offset, from 1
}

// keys returns what orders the message, and whether it has to be alone: a truncate, a message, a row that moves.
func (m *message) keys() (key []byte, alone bool) {
	c := m.change
	if c.Table == nil || c.Op == connectors.Truncate || c.Op == connectors.Message {
		return nil, true
	}
	row := c.After
	if row == nil {
		row = c.Before
	}
	key = append(key, c.Table.FullName()...)
	for _, k := range c.Table.Key {
		if k >= len(row) {
			return nil, true
		}
		key = connectors.AppendJSON(append(key, 0), row[k])
		if c.Op == connectors.Update && k < len(c.Before) && !c.Before[k].IsAbsent() && !c.Before[k].Equal(row[k]) {
			alone = true
		}
	}
	return key, alone
}

// fill puts a message into a template, each value escaped for a path.
func (c *SinkConfig) fill(template string, m *message) string {
	if !strings.Contains(template, "{") {
		return template
	}
	topic, partition := connectors.SplitStream(m.stream)
	pairs := []string{"{topic}", url.PathEscape(topic), "{partition}", strconv.Itoa(partition)}
	if c.Send == Events && m.change != nil {
		table := m.change.Table
		if table == nil {
			table = &connectors.Table{}
		}
		pairs = append(pairs, "{schema}", url.PathEscape(table.Schema), "{table}", url.PathEscape(table.Name), "{database}", url.PathEscape(table.Database),
			"{op}", m.change.Op.String(), "{offset}", strconv.FormatInt(m.change.Offset, 10), "{key}", url.PathEscape(m.keyText()))
	}
	return strings.NewReplacer(pairs...).Replace(template)
}

// keyText is the JSON list of the key's values.
func (m *message) keyText() string {
	c := m.change
	row := c.After
	if row == nil {
		row = c.Before
	}
	if c.Table == nil || row == nil || len(c.Table.Key) == 0 {
		return ""
	}
	text := []byte{}
	for i, k := range c.Table.Key {
		text = append(text, "[,"[min(i, 1)])
		text = connectors.AppendJSON(text, row[k])
	}
	return string(append(text, ']'))
}

// id names a run of messages, the same each time that they are sent together.
func id(messages []*message) string {
	first, last := messages[0], messages[len(messages)-1]
	text := first.stream + "/" + strconv.FormatInt(first.change.Offset, 10)
	if len(messages) > 1 {
		return text + "-" + strconv.FormatInt(last.change.Offset, 10)
	}
	if first.nth > 1 {
		text += "." + strconv.Itoa(first.nth)
	}
	return text
}

// body returns the body and its type.
func (s *sink) body(messages []*message) ([]byte, string) {
	var text []byte
	one := s.config.Send == Events
	list := !one && s.config.Format != Lines
	for i, m := range messages {
		if list {
			text = append(text, "[,"[min(i, 1)])
		}
		if s.config.Format == CloudEvents {
			text = appendCloudEvent(text, m)
		} else {
			text = connectors.AppendLine(text, m.stream, m.change)
		}
		if s.config.Format != Lines {
			text = bytes.TrimRight(text, "\n")
		}
	}
	if list {
		text = append(text, ']')
	}
	switch {
	case s.config.Format == Lines:
		return text, "application/x-ndjson"
	case s.config.Format == CloudEvents && one:
		return text, "application/cloudevents+json; charset=utf-8"
	case s.config.Format == CloudEvents:
		return text, "application/cloudevents-batch+json; charset=utf-8"
	}
	return text, "application/json"
}

// appendCloudEvent appends an event of CloudEvents 1.0 in structured form. Its data is the line of the change.
func appendCloudEvent(dst []byte, m *message) []byte {
	topic, _ := connectors.SplitStream(m.stream)
	dst = append(dst, `{"specversion":"1.0","id":`...)
	dst = connectors.AppendJSONString(dst, []byte(id([]*message{m})))
	dst = append(dst, `,"source":`...)
	dst = connectors.AppendJSONString(dst, []byte("/"+url.PathEscape(topic)))
	dst = append(dst, `,"type":"trunkline.`...)
	dst = append(dst, m.change.Op.String()...)
	dst = append(dst, '"')
	if key := m.keyText(); key != "" {
		dst = connectors.AppendJSONString(append(dst, `,"subject":`...), []byte(key))
	}
	if t := m.change.Time; !t.IsZero() {
		dst = t.UTC().AppendFormat(append(dst, `,"time":"`...), "2006-01-02T15:04:05.000000Z07:00")
		dst = append(dst, '"')
	}
	dst = append(dst, `,"datacontenttype":"application/json","data":`...)
	return append(connectors.AppendLine(dst, m.stream, m.change), '}')
}

// The headers of a signed request, from Standard Webhooks: the signature is v1, and the base64 of the HMAC-SHA256 of
// ID.SECONDS.BODY.
const (
	headerID        = "Webhook-Id"
	headerTime      = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// sign returns the signature of a body.
func sign(secret, id, seconds string, body []byte) string {
	mac := hmac.New(sha256.New, key(secret))
	mac.Write([]byte(id + "." + seconds + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// key takes a secret as Standard Webhooks writes it, whsec_ and base64, or as it is.
func key(secret string) []byte {
	if text, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			return raw
		}
	}
	return []byte(secret)
}

// refusal says that the server does not want the request, and would not want it again.
type refusal struct{ status int }

func (e refusal) Error() string {
	return fmt.Sprintf("the server answered %d %s", e.status, http.StatusText(e.status))
}

func isRefusal(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

const (
	firstWait = 200 * time.Millisecond
	maxWait   = 30 * time.Second
	maxAnswer = 64 << 10 // bytes of an answer that are read, so that the connection can be used again
)

// deliver sends messages in one request, and sends it again while the server asks for patience.
func (s *sink) deliver(ctx context.Context, messages []*message) error {
	body, kind := s.body(messages)
	until := time.Now().Add(s.config.Retry)
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		status, after, err := s.request(ctx, messages, body, kind)
		switch {
		case err != nil:
			return err // a connection that breaks is the pipeline's to try again
		case status/100 == 2:
			return nil
		case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= 500:
		case status/100 == 3, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusGone:
			return fmt.Errorf("the server answered %d %s; change url, method or headers: %w", status, http.StatusText(status), connectors.ErrFatal)
		default:
			return refusal{status}
		}
		pause := max(after, wait/2+rand.N(wait/2+1))
		if time.Now().Add(pause).After(until) {
			return fmt.Errorf("the server answered %d %s", status, http.StatusText(status))
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// request makes one attempt. after is the time that the server asks to wait.
func (s *sink) request(ctx context.Context, messages []*message, body []byte, kind string) (status int, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, s.config.Method, s.config.fill(s.config.URL, messages[0]), bytes.NewReader(body))
	if err != nil {
		return 0, 0, fmt.Errorf("make request: url is not valid: %w", connectors.ErrFatal)
	}
	name := id(messages)
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Idempotency-Key", name)
	for name, value := range s.config.Headers {
		r.Header.Set(name, s.config.fill(value, messages[0]))
	}
	if s.config.Secret != "" {
		seconds := strconv.FormatInt(time.Now().Unix(), 10)
		r.Header.Set(headerID, name)
		r.Header.Set(headerTime, seconds)
		r.Header.Set(headerSignature, sign(s.config.Secret, name, seconds, body))
	}
	resp, err := s.client.Do(r)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // without the URL, which can hold a secret
		}
		return 0, 0, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // what the answer says is not ours
	if err := resp.Body.Close(); err != nil {
		return 0, 0, err
	}
	return resp.StatusCode, retryAfter(resp.Header.Get("Retry-After")), nil
}

// retryAfter reads seconds or a date.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return time.Until(at)
	}
	return 0
}
