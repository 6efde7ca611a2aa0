package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/trunkline/trunkline/pipeline"
)

// Info tells a command whom it talks to.
type Info struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Dir     string `json:"dir"` // of the log
	Running bool   `json:"running"`
}

func (s *server) info(w http.ResponseWriter, r *http.Request) {
	reply(w, Info{Version: s.Version, PID: os.Getpid(), Dir: s.Pipeline.Dir(), Running: s.Pipeline.Running()})
}

func (s *server) status(w http.ResponseWriter, r *http.Request) {
	status, err := s.Pipeline.Status(r.Context())
	if err != nil {
		problem(w, err)
		return
	}
	reply(w, status)
}

// health says that the process lives and answers; what it thinks of its sources is for ready.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	status, err := s.Pipeline.Status(r.Context())
	if err != nil {
		http.Error(w, "log: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	var reasons []string
	for _, m := range status.Failing() {
		reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("%s %s is %s: %s", m.Role, m.Name, m.State, cmp.Or(m.Reason, m.Warning)), ": "))
	}
	if len(reasons) > 0 {
		http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// control pauses, resumes, resyncs, and begins a run of a source with a schedule. The path has the role in the plural: /api/sources/shop/pause.
// asked says in words what was done about a target. A resync goes on after the answer.
var asked = map[string]string{"pause": "paused", "resume": "resumed", "resync": "resync begins:", "extract": "extracted"}

func (s *server) control(w http.ResponseWriter, r *http.Request) {
	roles := map[string]pipeline.Role{"sources": pipeline.RoleSource, "sinks": pipeline.RoleSink}
	role, ok := roles[r.PathValue("role")]
	if !ok {
		fail(w, http.StatusNotFound, errors.New("no such endpoint"))
		return
	}
	verbs := map[string]func(*http.Request, pipeline.Target) error{
		"pause":  func(r *http.Request, t pipeline.Target) error { return s.Pipeline.Pause(r.Context(), t) },
		"resume": func(r *http.Request, t pipeline.Target) error { return s.Pipeline.Resume(r.Context(), t) },
		"resync": func(r *http.Request, t pipeline.Target) error { return s.Pipeline.Resync(r.Context(), t) },
		"extract": func(r *http.Request, t pipeline.Target) error {
			return s.Pipeline.Extract(r.Context(), t, r.FormValue("wait") != "no")
		},
	}
	verb, ok := verbs[r.PathValue("verb")]
	if !ok {
		fail(w, http.StatusNotFound, errors.New("no such endpoint"))
		return
	}
	target := pipeline.Target{Role: role, Name: r.PathValue("name"), Table: r.PathValue("table")}
	if err := verb(r, target); err != nil {
		problem(w, err)
		return
	}
	reply(w, struct {
		Done string `json:"done"`
	}{fmt.Sprintf("%s %s", asked[r.PathValue("verb")], target)})
}
