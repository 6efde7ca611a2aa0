// Package api serves a pipeline and its log over HTTP: the status page, the JSON API that the commands use, metrics and
// health.
//
// It promises that everything a command can do is one request here, so that a command behaves the same whether a daemon
// runs or not: without one, the command serves the same handler in its own process over the log that it opened. It
// answers to the machine it runs on, or to those who know its token, and refuses what a page of another site could send
// from a browser. It shows no secrets and, except for consume and for dead letters with values=true, no values of rows. The commands of cmd/trunkline are its callers.
package api

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline"
)

// maxRequest bounds the body of a request that is one JSON document.
const maxRequest = 1 << 20

// Options is what a handler serves. All but Logger are required.
type Options struct {
	Pipeline *pipeline.Pipeline
	Journal  log.Log
	Version  string
	Logger   *slog.Logger // default: silent
	Token    string       // that requests have to show, unless they are a user's
	Users    []User       // without users and without a token, only this machine is answered
	Audit    bool         // write what people do to the audit topic
}

// server holds what the handlers share. They keep no state between requests but the turn of keyless records and who is
// logged in.
type server struct {
	Options
	turn      atomic.Uint32 // next partition for a record without a key
	listeners atomic.Int32  // open event streams
	comparing chan struct{} // one slot for each password that is compared

	door     sync.Mutex // guards the rest
	sessions map[[sha256.Size]byte]session
	window   time.Time      // when tries began to be counted
	tries    map[string]int // attempts to log in, by address and by name
}

// New returns the handler of all endpoints.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{Options: o, comparing: make(chan struct{}, comparisons), sessions: map[[sha256.Size]byte]session{}, tries: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page("page.html"))
	mux.HandleFunc("GET /web/{file}", s.asset)
	mux.HandleFunc("GET /login", s.loginForm)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /api/logout", s.logout)
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.metrics())
	mux.Handle("GET /debug/pprof/", profiles())
	mux.HandleFunc("GET /api/info", s.info)
	mux.HandleFunc("GET /api/status", s.status)
	mux.HandleFunc("GET /api/me", s.me)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/history", s.history)
	mux.HandleFunc("GET /api/schemas/{id}", s.schemaVersions)
	mux.HandleFunc("GET /api/{role}/{name}/config", s.settings)
	mux.HandleFunc("POST /api/sinks/{name}/verify", s.verify)
	mux.HandleFunc("GET /api/sinks/{name}/deadletters", s.listLetters)
	mux.HandleFunc("POST /api/sinks/{name}/deadletters/replay", s.replayLetters)
	mux.HandleFunc("POST /api/sinks/{name}/deadletters/discard", s.discardLetters)
	mux.HandleFunc("POST /api/{role}/{name}/{verb}", s.control)
	mux.HandleFunc("POST /api/{role}/{name}/{table}/{verb}", s.control)
	mux.HandleFunc("GET /api/topics", s.listTopics)
	mux.HandleFunc("GET /api/topics/{topic}", s.describeTopic)
	mux.HandleFunc("PUT /api/topics/{topic}", s.createTopic)
	mux.HandleFunc("DELETE /api/topics/{topic}", s.deleteTopic)
	mux.HandleFunc("POST /api/topics/{topic}/records", s.produce)
	mux.HandleFunc("GET /api/topics/{topic}/records", s.consume)
	mux.Handle("/registry/", http.StripPrefix("/registry", s.Pipeline.Registry()))
	mux.HandleFunc("GET /api/groups", s.listGroups)
	mux.HandleFunc("GET /api/groups/{group}", s.describeGroup)
	mux.HandleFunc("POST /api/groups/{group}/reset", s.resetGroup)
	mux.HandleFunc("DELETE /api/groups/{group}", s.deleteGroup)
	checked := http.NewCrossOriginProtection().Handler(s.guard(mux))
	if s.closed() {
		return checked
	}
	return s.local(checked)
}

// requestError is a fault of the request.
type requestError struct{ problem string }

func (e requestError) Error() string { return e.problem }

func badRequest(format string, args ...any) error { return requestError{fmt.Sprintf(format, args...)} }

// problem answers with the status that belongs to an error.
func problem(w http.ResponseWriter, err error) {
	var fault requestError
	code := http.StatusInternalServerError
	switch {
	case errors.As(err, &fault):
		code = http.StatusBadRequest
	case errors.Is(err, log.ErrUnknownTopic), errors.Is(err, pipeline.ErrUnknown):
		code = http.StatusNotFound
	case errors.Is(err, log.ErrTopicExists), errors.Is(err, log.ErrGroupActive), errors.Is(err, pipeline.ErrNotRunning),
		errors.Is(err, pipeline.ErrBusy):
		code = http.StatusConflict
	case errors.Is(err, log.ErrRecordTooLarge):
		code = http.StatusRequestEntityTooLarge
	case errors.Is(err, log.ErrFull):
		code = http.StatusInsufficientStorage
	case errors.Is(err, pipeline.ErrUnsupported):
		code = http.StatusNotImplemented
	case errors.Is(err, log.ErrClosed):
		code = http.StatusServiceUnavailable
	}
	fail(w, code, err)
}

// failure is the body of every answer that is an error, and the last line of a stream that ended early.
type failure struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{err.Error()}) // the client is gone if this does not arrive
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this does not arrive
}

// receive decodes the body of a request strictly; an empty body leaves into as it is.
func receive(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return badRequest("request body: %v", err)
	}
	return nil
}
