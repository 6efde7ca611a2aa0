package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// maxObjects bounds the rows of a request.
const maxObjects = 10_000

// ServeHTTP takes a request in and answers it once its rows are durable: 200; 400 or 422 for a body that holds no rows, 401
// without a valid signature, 404, 405, 413 above the limit, 429 while too much waits, 503 when it could not be made durable.
func (s *source) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	status, text := s.serve(w, q)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	answer := map[string]string{"status": "durable"}
	if text != "" {
		answer = map[string]string{"error": text}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // who is gone does not read it
}

func (s *source) serve(w http.ResponseWriter, q *http.Request) (status int, text string) {
	at, table := s.config.find(q.URL.Path)
	if at < 0 {
		return http.StatusNotFound, "nothing is taken under this path"
	}
	if !takes(q.Method) {
		w.Header().Set("Allow", "POST, PUT")
		return http.StatusMethodNotAllowed, "send POST or PUT"
	}
	p := &s.config.Paths[at]
	limit := int64(s.config.Limits.Body)
	if q.ContentLength > limit {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is above %v", s.config.Limits.Body)
	}
	size := limit
	if q.ContentLength >= 0 {
		size = q.ContentLength
	}
	if !s.hold(size) {
		return http.StatusTooManyRequests, "too many requests wait to be made durable; try again"
	}
	defer s.hold(-size)
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is above %v", s.config.Limits.Body)
	case err != nil:
		return http.StatusBadRequest, "the body could not be read"
	}
	if err := p.verify(q.Header, body, time.Now()); err != nil {
		return http.StatusUnauthorized, err.Error()
	}
	r := &request{at: at, table: table, done: make(chan error, 1)}
	if r.objects, err = p.objects(body, q.Header); err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if key := p.key(q.Header, body); key != "" {
		h := hashOf(p.Path, key)
		r.key = &h
	}
	return s.settle(q, r)
}

// hold counts the bytes of a request that begins, or ends. It reports false when there are too many.
func (s *source) hold(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.held+n > int64(s.config.Limits.Waiting) {
		return false
	}
	s.held += n
	return true
}

// settle hands a request over and waits for its end.
func (s *source) settle(q *http.Request, r *request) (status int, text string) {
	const again = "the rows could not be made durable in time; send the request again"
	timer := time.NewTimer(s.config.Timeout)
	defer timer.Stop()
	select {
	case s.queue <- r:
	case <-s.closed:
		return http.StatusServiceUnavailable, errClosed.Error()
	default:
		return http.StatusTooManyRequests, "too many requests wait to be made durable; try again"
	}
	select {
	case err := <-r.done:
		var bad *refused
		if errors.As(err, &bad) {
			return http.StatusUnprocessableEntity, bad.Error()
		}
		return http.StatusOK, ""
	case <-s.closed:
		select {
		case err := <-r.done:
			if err == nil {
				return http.StatusOK, ""
			}
		default:
		}
		return http.StatusServiceUnavailable, errClosed.Error()
	case <-timer.C:
		return http.StatusServiceUnavailable, again
	case <-q.Context().Done():
		return http.StatusServiceUnavailable, again
	}
}

// objects splits a body: one object, or a list of them.
func (p *Path) objects(body []byte, h http.Header) ([][]byte, error) {
	token, rest, err := connectors.ScanJSON(body)
	if err != nil || len(rest) > 0 {
		return nil, errors.New("the body is not one JSON value")
	}
	var list [][]byte
	switch token[0] {
	case '{':
		list = [][]byte{token}
	case '[':
		for inner := bytes.TrimSpace(token[1 : len(token)-1]); len(inner) > 0; {
			one, after, err := connectors.ScanJSON(inner)
			if err != nil {
				return nil, errors.New("the body is not one JSON value")
			}
			if one[0] != '{' {
				return nil, fmt.Errorf("object %d of the list is none", len(list)+1)
			}
			if list = append(list, one); len(list) > maxObjects {
				return nil, fmt.Errorf("more than %d objects", maxObjects)
			}
			inner = bytes.TrimSpace(bytes.TrimPrefix(after, []byte{','}))
		}
	default:
		return nil, errors.New("the body is neither a JSON object nor a list of them")
	}
	if p.Content == document.Rows {
		for i := range list {
			list[i] = p.withHeaders(list[i], h)
		}
	}
	return list, nil
}

// withHeaders puts the values of headers into an object, before its members.
func (p *Path) withHeaders(object []byte, h http.Header) []byte {
	if len(p.Headers) == 0 {
		return object
	}
	out := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		value := h.Get(p.Headers[name])
		if value == "" {
			continue
		}
		out = connectors.AppendJSONString(out, []byte(name))
		out = append(connectors.AppendJSONString(append(out, ':'), []byte(value)), ',')
	}
	rest := bytes.TrimSpace(object[1:])
	if rest[0] == '}' {
		out = bytes.TrimSuffix(out, []byte{','})
	}
	return append(out, rest...)
}

// key tells a request from others. Stripe's is the id of its event.
func (p *Path) key(h http.Header, body []byte) string {
	if key := h.Get(p.Idempotency); key != "" || p.Signature != Stripe {
		return strings.TrimSpace(key)
	}
	token, err := document.Find(body, "id")
	if err != nil || token == nil || token[0] != '"' {
		return ""
	}
	return string(token)
}
