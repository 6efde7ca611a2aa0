package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/reconcile"
)

// VerifyRequest is the body of POST /api/sinks/NAME/verify.
type VerifyRequest struct {
	Table  string  `json:"table,omitempty"`
	Repair bool    `json:"repair,omitempty"`
	Window float64 `json:"window_seconds,omitempty"`
}

// VerifyLine is one line of its answer: how far it is, what was found, or why it ended early.
type VerifyLine struct {
	Progress *reconcile.Progress `json:"progress,omitempty"`
	Result   *pipeline.Verified  `json:"result,omitempty"`
	Error    string              `json:"error,omitempty"`
}

// verify streams JSON lines while it compares.
func (s *server) verify(w http.ResponseWriter, r *http.Request) {
	var request VerifyRequest
	if err := receive(w, r, &request); err != nil {
		problem(w, err)
		return
	}
	control := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	begun := false
	send := func(line VerifyLine) error {
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("Cache-Control", "no-store")
			begun = true
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
		return control.Flush()
	}
	err := s.Pipeline.Verify(r.Context(), pipeline.Verification{
		Sink: r.PathValue("name"), Table: request.Table, Repair: request.Repair, Window: time.Duration(request.Window * float64(time.Second)),
		Progress: func(p reconcile.Progress) { _ = send(VerifyLine{Progress: &p}) }, // the next result tells that the client is gone
	}, func(v pipeline.Verified) error { return send(VerifyLine{Result: &v}) })
	switch {
	case err == nil:
	case begun:
		_ = send(VerifyLine{Error: err.Error()}) // the client is gone if this does not arrive
	default:
		problem(w, err)
	}
}
