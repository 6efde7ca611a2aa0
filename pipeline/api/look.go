package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/config"
)

// SchemaVersion is one version of a table's schema, and what it changed.
type SchemaVersion struct {
	ID      int64    `json:"id"`
	Table   string   `json:"table"`
	Columns []string `json:"columns"` // name and type, as a statement would say them
	Changes []string `json:"changes"` // in words; empty for the first version
}

// history answers with the last hour of every source and sink.
func (s *server) history(w http.ResponseWriter, r *http.Request) {
	reply(w, s.Pipeline.History())
}

// schemaVersions answers with all versions of the table that a version is of.
func (s *server) schemaVersions(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 0 {
		problem(w, badRequest("schema %q: not a number", r.PathValue("id")))
		return
	}
	list, err := s.Pipeline.Schemas().Versions(r.Context(), id)
	if err != nil {
		fail(w, http.StatusNotFound, err)
		return
	}
	out := make([]SchemaVersion, len(list))
	for i, v := range list {
		out[i] = SchemaVersion{ID: v.ID, Table: v.Table.FullName(), Columns: []string{}, Changes: []string{}}
		for _, c := range v.Table.Columns {
			out[i].Columns = append(out[i].Columns, describeColumn(c))
		}
		if i > 0 {
			out[i].Changes = codec.Differences(list[i-1].Table, v.Table)
		}
	}
	reply(w, out)
}

func describeColumn(c connectors.Column) string {
	text := c.Name + " " + c.Type
	if c.NotNull {
		text += " not null"
	}
	if c.Generated {
		text += " generated"
	}
	if len(c.Labels) > 0 {
		text += " (" + strings.Join(c.Labels, ", ") + ")"
	}
	return text
}

// settings answers with the settings of a source or sink, without secrets.
func (s *server) settings(w http.ResponseWriter, r *http.Request) {
	all, name := s.Pipeline.Config(), r.PathValue("name")
	var text string
	found := false
	switch r.PathValue("role") {
	case "sources":
		if i := slices.IndexFunc(all.Sources, func(c config.Source) bool { return c.Name == name }); i >= 0 {
			text, found = all.Sources[i].Shown, true
		}
	case "sinks":
		if i := slices.IndexFunc(all.Sinks, func(c config.Sink) bool { return c.Name == name }); i >= 0 {
			text, found = all.Sinks[i].Shown, true
		}
	}
	if !found {
		problem(w, fmt.Errorf("%s %s: %w", r.PathValue("role"), name, pipeline.ErrUnknown))
		return
	}
	reply(w, struct {
		YAML string `json:"yaml"`
	}{all.Secrets.Hide(text)})
}
