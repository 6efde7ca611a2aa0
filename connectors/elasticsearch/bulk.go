package elasticsearch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

const (
	maxBody   = 10 << 20 // bytes of a bulk request, unless one document is larger
	maxGet    = 500      // documents that one request reads back
	maxID     = 512      // bytes of an id that the store takes
	firstWait = 200 * time.Millisecond
	maxWait   = 10 * time.Second
)

// action is what becomes of one document.
type action struct {
	index, id string
	row       *fold.Row
	source    []byte // nil: it goes
}

// docID is the JSON of the key, or a sum of it where that is too long.
func docID(key string) string {
	if len(key) <= maxID {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// deletedField says in each document, with deletes: soft, whether the source has the row no more.
const deletedField = "_deleted"

// document is the JSON of a row. What the row lacks comes from the old document.
func document(r *fold.Row, old map[string]string, soft bool) []byte {
	text := append(make([]byte, 0, 256), '{')
	for i, v := range r.Values {
		name := r.Table.Columns[i].Name
		if i > 0 {
			text = append(text, ',')
		}
		text = append(connectors.AppendJSONString(text, []byte(name)), ':')
		if before, ok := old[name]; ok && v.IsAbsent() {
			text = append(text, before...)
		} else {
			text = connectors.AppendJSON(text, v)
		}
	}
	if soft {
		if len(r.Values) > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendBool(append(text, `"`+deletedField+`":`...), r.Gone)
	}
	return append(text, '}')
}

// appendTo appends the lines of the action: what to do and, for a put, the document.
func (a *action) appendTo(dst []byte) []byte {
	verb := `{"index":{"_index":`
	if a.source == nil {
		verb = `{"delete":{"_index":`
	}
	dst = append(dst, verb...)
	dst = connectors.AppendJSONString(dst, []byte(a.index))
	dst = connectors.AppendJSONString(append(dst, `,"_id":`...), []byte(a.id))
	dst = strconv.AppendInt(append(dst, `,"version":`...), a.row.Offset+1, 10)
	dst = append(dst, `,"version_type":"external_gte"}}`+"\n"...)
	if a.source != nil {
		dst = append(append(dst, a.source...), '\n')
	}
	return dst
}

// bulk sends actions until each is settled: done, or refused for good. Those that the store is too busy for are sent again
// with backoff, alone.
func (s *sink) bulk(ctx context.Context, actions []action, refused map[int]error) error {
	until := time.Now().Add(s.config.Retry)
	for wait := firstWait; len(actions) > 0; wait = min(2*wait, maxWait) {
		var again []action
		reason := ""
		for rest := actions; len(rest) > 0; {
			n, busyNow, why, err := s.request(ctx, rest, refused)
			if err != nil {
				return err
			}
			if why != "" {
				reason = why
			}
			again, rest = append(again, busyNow...), rest[n:]
		}
		if actions = again; len(actions) == 0 {
			return nil
		}
		pause := wait/2 + rand.N(wait/2+1)
		if time.Now().Add(pause).After(until) {
			return fmt.Errorf("the store takes %d documents only later: %s", len(actions), reason)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
	return nil
}

// request sends the first n of the actions, and returns those that have to be sent again.
func (s *sink) request(ctx context.Context, actions []action, refused map[int]error) (n int, again []action, reason string, err error) {
	var body []byte
	for n < len(actions) && (n == 0 || len(body)+len(actions[n].source) < maxBody) {
		body = actions[n].appendTo(body)
		n++
	}
	for {
		var answer struct{ Items []map[string]item }
		err := s.client.json(ctx, "POST", "/_bulk?filter_path=items.*.status,items.*.error.type,items.*.error.reason", body, &answer)
		switch {
		case err == nil && len(answer.Items) != n:
			return 0, nil, "", fmt.Errorf("it answered for %d of %d documents", len(answer.Items), n)
		case err == nil:
			again, reason, err = settle(actions[:n], answer.Items, refused)
			return n, again, reason, err
		case isStatus(err, http.StatusRequestEntityTooLarge) && n > 1:
			n /= 2
			body = body[:0]
			for i := range actions[:n] {
				body = actions[i].appendTo(body)
			}
		case isStatus(err, http.StatusRequestEntityTooLarge):
			refused[actions[0].row.Index] = err
			return 1, nil, "", nil
		case isBusy(err):
			return n, actions[:n], err.Error(), nil
		default:
			return 0, nil, "", err
		}
	}
}

func isBusy(err error) bool {
	e, ok := err.(*apiError)
	return ok && busy(e.status)
}

// item is the outcome of one action.
type item struct {
	Status int
	Error  *fault
}

// settle sorts outcomes.
func settle(actions []action, items []map[string]item, refused map[int]error) (again []action, reason string, err error) {
	for i, a := range actions {
		for _, it := range items[i] {
			f := fault{Type: "status " + strconv.Itoa(it.Status)}
			if it.Error != nil {
				f = *it.Error
			}
			switch {
			case it.Status/100 == 2:
			case it.Status == http.StatusConflict: // the store has a newer one
			case it.Status == http.StatusNotFound && a.source == nil: // there was nothing to delete
			case busy(it.Status), f.Type == "cluster_block_exception":
				again, reason = append(again, a), f.Error()
			case it.Status == http.StatusNotFound:
				return nil, "", fmt.Errorf("index %s: %w", a.index, f) // it was removed: it is made again on the next try
			case it.Status/100 == 4:
				refused[a.row.Index] = f
			default:
				return nil, "", fmt.Errorf("index %s: %w", a.index, f)
			}
		}
	}
	return again, reason, nil
}

// recall reads the documents of rows that lack columns: by row, the fields as they stand.
func (s *sink) recall(ctx context.Context, stream string) (map[*fold.Row]map[string]string, error) {
	type asked struct {
		row       *fold.Row
		index, id string
	}
	var want []asked
	for _, r := range s.folded.Rows {
		for _, from := range r.From {
			want = append(want, asked{r, s.index(stream, r.Table), docID(from.Text)})
		}
	}
	out := map[*fold.Row]map[string]string{}
	for len(want) > 0 {
		n := min(len(want), maxGet)
		body := []byte(`{"docs":`)
		for i, w := range want[:n] {
			body = connectors.AppendJSONString(append(append(body, "[,"[min(i, 1)]), `{"_index":`...), []byte(w.index))
			body = append(connectors.AppendJSONString(append(body, `,"_id":`...), []byte(w.id)), '}')
		}
		var answer struct {
			Docs []struct {
				Found  bool
				Source json.RawMessage `json:"_source"`
			}
		}
		if err := s.client.json(ctx, "POST", "/_mget", append(body, "]}"...), &answer); err != nil {
			return nil, err
		}
		if len(answer.Docs) != n {
			return nil, fmt.Errorf("it answered for %d of %d documents", len(answer.Docs), n)
		}
		for i, d := range answer.Docs {
			if _, known := out[want[i].row]; known || !d.Found {
				continue // of several keys the first that is there is meant
			}
			fields, err := members(d.Source)
			if err != nil {
				return nil, fmt.Errorf("read document of index %s: %w", want[i].index, err)
			}
			out[want[i].row] = fields
		}
		want = want[n:]
	}
	return out, nil
}

// members splits a JSON object into names and values as they stand.
func members(text []byte) (map[string]string, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, connectors.ErrJSON
	}
	out := make(map[string]string, len(raw))
	for name, value := range raw {
		out[name] = string(value)
	}
	return out, nil
}
