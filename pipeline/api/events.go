package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// eventEvery is how often a page hears of the status.
	eventEvery = time.Second
	// maxListeners is how many pages may be open at once.
	maxListeners = 64
)

// events streams the status as server-sent events until the client goes, one each second.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	if s.listeners.Add(1) > maxListeners {
		s.listeners.Add(-1)
		fail(w, http.StatusServiceUnavailable, errors.New("too many pages are open: close one"))
		return
	}
	defer s.listeners.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy is not to wait for more
	control := http.NewResponseController(w)
	ticker := time.NewTicker(eventEvery)
	defer ticker.Stop()
	for {
		if _, known := s.identify(r); !known {
			return // the session has ended
		}
		status, err := s.Pipeline.Status(r.Context())
		name, body := "status", any(status)
		if err != nil {
			name, body = "problem", failure{err.Error()}
		}
		text, err := json.Marshal(body)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}
