package api

import (
	"net/http"
	"strconv"

	"github.com/trunkline/trunkline/pipeline/deliver"
)

// shownLetters is how many dead letters are listed unless the request says otherwise.
const shownLetters = 100

// Letters is the body of POST /api/sinks/NAME/deadletters/replay and …/discard: it says which letters are meant.
type Letters struct {
	IDs        []int64 `json:"ids,omitempty"`
	Topic      string  `json:"topic,omitempty"`      // all of this topic
	All        bool    `json:"all,omitempty"`        // all
	After      *int64  `json:"after,omitempty"`      // of those, what has a greater id: the next of the answer before
	Superseded bool    `json:"superseded,omitempty"` // replay: also what a newer record has superseded
}

// Discarded is the answer of …/discard.
type Discarded struct {
	Discarded int `json:"discarded"`
}

// chosenLetters reads which letters a request names: all of them never by accident.
func chosenLetters(w http.ResponseWriter, r *http.Request) (deliver.Selection, error) {
	var l Letters
	if err := receive(w, r, &l); err != nil {
		return deliver.Selection{}, err
	}
	if len(l.IDs) == 0 && l.Topic == "" && !l.All {
		return deliver.Selection{}, badRequest("which dead letters? name ids, a topic, or all")
	}
	if len(l.IDs) > 0 && l.All {
		return deliver.Selection{}, badRequest("either ids or all")
	}
	out := deliver.Selection{IDs: l.IDs, Topic: l.Topic, After: -1, Superseded: l.Superseded}
	if l.After != nil {
		out.After = *l.After
	}
	return out, nil
}

// listLetters answers GET /api/sinks/NAME/deadletters?max=N&done=true&values=true.
func (s *server) listLetters(w http.ResponseWriter, r *http.Request) {
	query := deliver.LetterQuery{Max: shownLetters, Done: r.FormValue("done") == "true", Values: r.FormValue("values") == "true"}
	if text := r.FormValue("max"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			problem(w, badRequest("max %q: not a number", text))
			return
		}
		query.Max = n
	}
	letters, err := s.Pipeline.DeadLetters(r.Context(), r.PathValue("name"), query)
	if err != nil {
		problem(w, err)
		return
	}
	reply(w, letters)
}

func (s *server) replayLetters(w http.ResponseWriter, r *http.Request) {
	which, err := chosenLetters(w, r)
	if err != nil {
		problem(w, err)
		return
	}
	replayed, err := s.Pipeline.ReplayLetters(r.Context(), r.PathValue("name"), which)
	if err != nil {
		problem(w, err)
		return
	}
	reply(w, replayed)
}

func (s *server) discardLetters(w http.ResponseWriter, r *http.Request) {
	which, err := chosenLetters(w, r)
	if err != nil {
		problem(w, err)
		return
	}
	n, err := s.Pipeline.DiscardLetters(r.Context(), r.PathValue("name"), which)
	if err != nil {
		problem(w, err)
		return
	}
	reply(w, Discarded{n})
}
