package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os/user"
	"strings"
	"time"

	"github.com/trunkline/trunkline/log"
)

// AuditTopic holds one record for each thing that somebody did, as JSON. It is kept for ever.
const AuditTopic = log.InternalPrefix + "audit"

const (
	// maxDetail bounds what is kept of a request, and of its error.
	maxDetail = 2 << 10
	// actorHeader is how a command says who runs it. It proves nothing, and is kept apart from what a login proves.
	actorHeader = "Trunkline-Actor"
)

// Act is one record of the audit topic.
type Act struct {
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`  // the user who logged in or whose token was shown; "this machine" where there is no login
	From   string    `json:"from"` // the address, and what the client says of itself
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"` // what was asked for beside that, as JSON
	Error  string    `json:"error,omitempty"`  // empty: it was done
}

// acts reports whether a request changes something that the audit is about. Records that are produced have a log of
// their own: the topic.
func acts(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasSuffix(r.URL.Path, "/records")
}

// audited writes what a request did, and how it ended, to the audit topic.
func (s *server) audited(next http.Handler, who person) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Audit || !acts(r) {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			problem(w, badRequest("request body: %v", err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var dry struct {
			Dry bool `json:"dry_run"`
		}
		if json.Unmarshal(body, &dry) == nil && dry.Dry {
			next.ServeHTTP(w, r)
			return
		}
		seen := &witness{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		detail := strings.TrimSpace(string(body))
		if r.URL.RawQuery != "" {
			detail = strings.TrimSpace("?" + r.URL.RawQuery + " " + detail)
		}
		s.audit(r, who, r.Method+" "+r.URL.Path, detail, seen.failure())
	})
}

// audit appends one record. What cannot be written is logged: the act itself is done by then.
func (s *server) audit(r *http.Request, who person, action, detail, failure string) {
	if !s.Audit {
		return
	}
	act := Act{Time: time.Now().UTC(), Who: who.name, From: from(r), Action: action, Detail: bounded(detail), Error: bounded(failure)}
	if act.Who == "" {
		act.Who = "this machine"
	}
	text, err := json.Marshal(act)
	if err == nil {
		err = s.append(context.WithoutCancel(r.Context()), log.Record{Value: text, Timestamp: act.Time.UnixMilli()})
	}
	if err != nil {
		s.Logger.Error("write audit", "error", err, "who", act.Who, "action", action)
	}
}

// append writes to the audit topic, which it makes if there is none.
func (s *server) append(ctx context.Context, record log.Record) error {
	_, err := s.Journal.Append(ctx, log.TopicPartition{Topic: AuditTopic}, record)
	if !errors.Is(err, log.ErrUnknownTopic) {
		return err
	}
	err = s.Journal.CreateTopic(ctx, AuditTopic, log.TopicConfig{Partitions: 1, Retention: log.Forever})
	if err != nil && !errors.Is(err, log.ErrTopicExists) {
		return err
	}
	_, err = s.Journal.Append(ctx, log.TopicPartition{Topic: AuditTopic}, record)
	return err
}

// from says where a request came from.
func from(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "this machine" // a command that serves itself
	}
	if actor := r.Header.Get(actorHeader); actor != "" {
		return bounded(host + ", command of " + actor)
	}
	return host
}

func bounded(text string) string {
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "")
	}
	return text
}

// actor returns who runs this process, as the system calls them.
func actor() string {
	u, err := user.Current()
	if err != nil {
		return "somebody unknown"
	}
	return u.Username
}

// witness remembers how an answer began when it is an error.
type witness struct {
	http.ResponseWriter
	code  int
	start []byte
}

// WriteHeader notes the code.
func (w *witness) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Write keeps the beginning of an error.
func (w *witness) Write(b []byte) (int, error) {
	if w.code >= http.StatusBadRequest && len(w.start) < maxDetail {
		w.start = append(w.start, b...)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets a response controller reach what is below.
func (w *witness) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *witness) failure() string {
	if w.code < http.StatusBadRequest {
		return ""
	}
	var f failure
	if json.Unmarshal(w.start, &f) != nil || f.Error == "" {
		return http.StatusText(w.code)
	}
	return f.Error
}
