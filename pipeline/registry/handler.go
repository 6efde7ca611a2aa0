package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// mediaType is what Confluent's clients ask for.
const mediaType = "application/vnd.schemaregistry.v1+json"

// Handler serves Confluent's API, without a prefix.
func (r *Registry) Handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, f func(q *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			body, err := f(q)
			answer(w, body, err)
		})
	}
	route("GET /{$}", func(*http.Request) (any, error) { return struct{}{}, nil })
	route("GET /subjects", r.listSubjects)
	route("POST /subjects/{subject}", r.lookUp)
	route("DELETE /subjects/{subject}", r.deleteSubject)
	route("GET /subjects/{subject}/versions", r.listVersions)
	route("POST /subjects/{subject}/versions", r.register)
	route("GET /subjects/{subject}/versions/{version}", r.showVersion)
	route("DELETE /subjects/{subject}/versions/{version}", r.deleteVersion)
	route("GET /subjects/{subject}/versions/{version}/referencedby", r.referencedBy)
	route("GET /schemas", r.listSchemas)
	route("GET /schemas/types", func(*http.Request) (any, error) { return languages, nil })
	route("GET /schemas/ids/{id}", r.showID)
	route("GET /schemas/ids/{id}/subjects", func(q *http.Request) (any, error) { return r.idVersions(q, false) })
	route("GET /schemas/ids/{id}/versions", func(q *http.Request) (any, error) { return r.idVersions(q, true) })
	route("POST /compatibility/subjects/{subject}/versions", r.test)
	route("POST /compatibility/subjects/{subject}/versions/{version}", r.test)
	for _, what := range []setting{{"config", "compatibility", levels, invalidLevel, noConfig}, {"mode", "mode", modes, invalidMode, noMode}} {
		for _, path := range []string{"/" + what.path, "/" + what.path + "/{subject}"} {
			route("GET "+path, func(q *http.Request) (any, error) { return r.showSetting(q, what) })
			route("PUT "+path, func(q *http.Request) (any, error) { return r.putSetting(q, what) })
			route("DELETE "+path, func(q *http.Request) (any, error) { return r.dropSetting(q, what) })
		}
	}
	mux.HandleFunc("GET /subjects/{subject}/versions/{version}/schema", func(w http.ResponseWriter, q *http.Request) {
		v, err := r.version(q)
		raw(w, v.Text, err)
	})
	mux.HandleFunc("GET /schemas/ids/{id}/schema", func(w http.ResponseWriter, q *http.Request) {
		_, schema, err := r.byID(q)
		raw(w, schema.Text, err)
	})
	return mux
}

func answer(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", mediaType)
	code := http.StatusOK
	if err != nil {
		var refused *Error
		if !errors.As(err, &refused) {
			refused = &Error{internalProblem, err.Error()}
		}
		code = refused.Code / 100
		shown := refused.Code
		if shown == incompatible {
			shown = http.StatusConflict // the one code that is the status itself
		}
		body = map[string]any{"error_code": shown, "message": refused.Problem}
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this does not arrive
}

func raw(w http.ResponseWriter, text string, err error) {
	if err != nil {
		answer(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = io.WriteString(w, text) // likewise
}

// request is the body of a schema that is registered, looked up or tested.
type request struct {
	Schema     string      `json:"schema"`
	SchemaType string      `json:"schemaType"`
	References []Reference `json:"references"`
}

// schemaOf reads a schema, which is not checked yet. Clients send more members than we know.
func schemaOf(q *http.Request) (Schema, error) {
	var body request
	if err := read(q, &body); err != nil {
		return Schema{}, err
	}
	return Schema{body.SchemaType, body.Schema, body.References}, nil
}

func read(q *http.Request, into any) error {
	text, err := io.ReadAll(io.LimitReader(q.Body, 2*maxSchema+1))
	if err == nil && len(text) > 2*maxSchema {
		err = fmt.Errorf("it has more than %d bytes", 2*maxSchema)
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return refuse(invalidSchema, "the request's body: %v", err)
	}
	return nil
}

func flag(q *http.Request, name string) bool { return q.URL.Query().Get(name) == "true" }

func (r *Registry) listSubjects(q *http.Request) (any, error) {
	out := []string{}
	prefix := strings.TrimPrefix(q.URL.Query().Get("subjectPrefix"), ":*:")
	err := r.view(q.Context(), func(s *state) error {
		for name := range s.subjects {
			if strings.HasPrefix(name, prefix) && (flag(q, "deleted") || len(s.live(name)) > 0) {
				out = append(out, name)
			}
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

func (r *Registry) register(q *http.Request) (any, error) {
	schema, err := schemaOf(q)
	if err != nil {
		return nil, err
	}
	id, err := r.Register(q.Context(), q.PathValue("subject"), schema)
	return map[string]int32{"id": id}, err
}

// shown is a version as Confluent's API has it: the type is left out for Avro.
type shown struct {
	Subject    string      `json:"subject"`
	Version    int         `json:"version"`
	ID         int32       `json:"id"`
	Type       string      `json:"schemaType,omitempty"`
	References []Reference `json:"references,omitempty"`
	Schema     string      `json:"schema"`
}

func show(v Version) shown {
	return shown{v.Subject, v.Version, v.ID, named(v.Type), v.References, v.Text}
}

func named(kind string) string {
	if kind == "AVRO" {
		return ""
	}
	return kind
}

func (r *Registry) lookUp(q *http.Request) (any, error) {
	schema, err := schemaOf(q)
	if err != nil {
		return nil, err
	}
	wanted, err := r.check(q.Context(), schema, true)
	if err != nil {
		return nil, err
	}
	var out shown
	subject := q.PathValue("subject")
	err = r.view(q.Context(), func(s *state) error {
		if len(s.subjects[subject]) == 0 {
			return refuse(noSubject, "Subject '%s' not found.", subject)
		}
		v, ok := s.find(subject, wanted.Schema)
		if !ok || v.Deleted && !flag(q, "deleted") {
			return refuse(noSchema, "Schema not found")
		}
		out = show(v)
		return nil
	})
	return out, err
}

func (r *Registry) listVersions(q *http.Request) (any, error) {
	out := []int{}
	subject := q.PathValue("subject")
	err := r.view(q.Context(), func(s *state) error {
		for _, v := range s.subjects[subject] {
			if !v.Deleted || flag(q, "deleted") {
				out = append(out, v.Version)
			}
		}
		if len(out) == 0 {
			return refuse(noSubject, "Subject '%s' not found.", subject)
		}
		return nil
	})
	return out, err
}

// version finds the version that a request names: a number, latest or -1.
func (r *Registry) version(q *http.Request) (found Version, err error) {
	err = r.view(q.Context(), func(s *state) error {
		found, err = s.version(q.PathValue("subject"), q.PathValue("version"), flag(q, "deleted"))
		return err
	})
	return found, err
}

func (s *state) version(subject, name string, deleted bool) (Version, error) {
	list := s.live(subject)
	if deleted {
		list = s.subjects[subject]
	}
	if len(list) == 0 {
		return Version{}, refuse(noSubject, "Subject '%s' not found.", subject)
	}
	if name == "latest" || name == "-1" {
		return list[len(list)-1], nil
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 {
		return Version{}, refuse(invalidVersion, "The specified version '%s' is not a valid version id. Allowed values are between [1, 2^31-1] and the string \"latest\"", name)
	}
	for _, v := range list {
		if v.Version == n {
			return v, nil
		}
	}
	return Version{}, refuse(noVersion, "Version %d not found.", n)
}

func (r *Registry) showVersion(q *http.Request) (any, error) {
	v, err := r.version(q)
	return show(v), err
}

// referencedBy lists the ids of the schemas that name a version.
func (r *Registry) referencedBy(q *http.Request) (any, error) {
	out := []int32{}
	err := r.view(q.Context(), func(s *state) error {
		v, err := s.version(q.PathValue("subject"), q.PathValue("version"), flag(q, "deleted"))
		if err != nil {
			return err
		}
		for _, user := range s.referrers(place{v.Subject, v.Version}, flag(q, "deleted")) {
			out = append(out, user.ID)
		}
		out = slices.Compact(out) // they are in order
		return nil
	})
	return out, err
}

func (r *Registry) listSchemas(q *http.Request) (any, error) {
	out := []shown{}
	err := r.view(q.Context(), func(s *state) error {
		names := make([]string, 0, len(s.subjects))
		for name := range s.subjects {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			list := s.live(name)
			if flag(q, "deleted") {
				list = s.subjects[name]
			}
			if flag(q, "latestOnly") && len(list) > 1 {
				list = list[len(list)-1:]
			}
			for _, v := range list {
				out = append(out, show(v))
			}
		}
		return nil
	})
	return out, err
}

func (r *Registry) byID(q *http.Request) (id int32, schema Schema, err error) {
	n, err := strconv.ParseInt(q.PathValue("id"), 10, 32)
	if err != nil {
		return 0, schema, refuse(noSchema, "Schema %s not found", q.PathValue("id"))
	}
	err = r.view(q.Context(), func(s *state) error {
		var ok bool
		if schema, ok = s.schemas[int32(n)]; !ok {
			return refuse(noSchema, "Schema %d not found", n)
		}
		return nil
	})
	return int32(n), schema, err
}

func (r *Registry) showID(q *http.Request) (any, error) {
	_, schema, err := r.byID(q)
	out := map[string]any{"schema": schema.Text}
	if kind := named(schema.Type); kind != "" {
		out["schemaType"] = kind
	}
	if len(schema.References) > 0 {
		out["references"] = schema.References
	}
	return out, err
}

func (r *Registry) idVersions(q *http.Request, versions bool) (any, error) {
	id, _, err := r.byID(q)
	if err != nil {
		return nil, err
	}
	type pair struct {
		Subject string `json:"subject"`
		Version int    `json:"version"`
	}
	pairs, subjects := []pair{}, []string{}
	err = r.view(q.Context(), func(s *state) error {
		for name, list := range s.subjects {
			for _, v := range list {
				if v.ID == id && (!v.Deleted || flag(q, "deleted")) {
					pairs = append(pairs, pair{name, v.Version})
					if !slices.Contains(subjects, name) {
						subjects = append(subjects, name)
					}
				}
			}
		}
		return nil
	})
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.Subject, b.Subject)*2 + a.Version - b.Version })
	slices.Sort(subjects)
	if versions {
		return pairs, err
	}
	return subjects, err
}

func (r *Registry) deleteSubject(q *http.Request) (any, error) {
	out := []int{}
	subject := q.PathValue("subject")
	err := r.view(q.Context(), func(s *state) error {
		live := len(s.live(subject)) > 0
		switch {
		case len(s.subjects[subject]) == 0:
			return refuse(noSubject, "Subject '%s' not found.", subject)
		case flag(q, "permanent") && live:
			return refuse(notSoftDeleted, "Subject '%s' was not deleted first before being permanently deleted", subject)
		case !flag(q, "permanent") && !live:
			return refuse(softDeleted, "Subject '%s' was soft deleted. Set permanent=true to delete permanently", subject)
		}
		for _, v := range s.subjects[subject] {
			if err := s.free(v, flag(q, "permanent")); err != nil && v.Deleted == flag(q, "permanent") {
				return err
			}
		}
		for _, v := range slices.Clone(s.subjects[subject]) {
			if v.Deleted != flag(q, "permanent") {
				continue
			}
			if err := r.delete(q.Context(), v, flag(q, "permanent")); err != nil {
				return err
			}
			out = append(out, v.Version)
		}
		return nil
	})
	return out, err
}

// delete deletes a version. The lock is held.
func (r *Registry) delete(ctx context.Context, v Version, permanent bool) error {
	if mode := r.state.mode(v.Subject); mode != "READWRITE" {
		return refuse(notPermitted, "Subject %s is in mode %s", v.Subject, mode)
	}
	if err := r.state.free(v, permanent); err != nil {
		return err
	}
	if err := r.append(ctx, event{Kind: "delete", Subject: v.Subject, Version: v.Version, Permanent: permanent}); err != nil {
		return err
	}
	if after, ok := r.state.at(place{v.Subject, v.Version}, permanent); ok {
		return r.state.free(after, permanent) // another process was first
	}
	return nil
}

func (r *Registry) deleteVersion(q *http.Request) (any, error) {
	var version int
	permanent := flag(q, "permanent")
	err := r.view(q.Context(), func(s *state) error {
		v, err := s.version(q.PathValue("subject"), q.PathValue("version"), permanent)
		if err != nil {
			return err
		}
		if permanent && !v.Deleted {
			return refuse(40407, "Subject '%s' Version %d was not deleted first before being permanently deleted", v.Subject, v.Version)
		}
		version = v.Version
		return r.delete(q.Context(), v, permanent)
	})
	return version, err
}

// test says whether a schema could be registered: against one version, or those that the subject's compatibility is about.
func (r *Registry) test(q *http.Request) (any, error) {
	schema, err := schemaOf(q)
	if err != nil {
		return nil, err
	}
	fresh, err := r.check(q.Context(), schema, false)
	if err != nil {
		return nil, err
	}
	var problems []string
	subject := q.PathValue("subject")
	err = r.view(q.Context(), func(s *state) error {
		if q.PathValue("version") == "" {
			problems = s.incompatible(subject, fresh)
			return nil
		}
		v, err := s.version(subject, q.PathValue("version"), false)
		if err == nil {
			problems = s.compare(s.level(subject), fresh, v)
		}
		return err
	})
	out := map[string]any{"is_compatible": len(problems) == 0}
	if flag(q, "verbose") {
		out["messages"] = append([]string{}, problems...)
	}
	return out, err
}

// setting is the compatibility or the mode, of one subject or of all.
type setting struct {
	path    string
	name    string // in a request
	valid   []string
	invalid int // codes
	none    int
}

func (w setting) of(s *state) map[string]string {
	if w.path == "mode" {
		return s.modes
	}
	return s.levels
}

// get returns what holds for a subject.
func (w setting) get(s *state, subject string) string {
	if w.path == "mode" {
		return s.mode(subject)
	}
	return s.level(subject)
}

// answerName is what an answer to GET calls it.
func (w setting) answerName() string {
	if w.path == "mode" {
		return "mode"
	}
	return "compatibilityLevel"
}

func (r *Registry) showSetting(q *http.Request, what setting) (any, error) {
	var value string
	subject := q.PathValue("subject")
	err := r.view(q.Context(), func(s *state) error {
		if own := what.of(s)[subject]; own == "" && subject != "" && !flag(q, "defaultToGlobal") {
			return refuse(what.none, "Subject '%s' does not have subject-level %s configured", subject, what.name)
		}
		value = what.get(s, subject)
		return nil
	})
	return map[string]string{what.answerName(): value}, err
}

func (r *Registry) putSetting(q *http.Request, what setting) (any, error) {
	var body map[string]any
	if err := read(q, &body); err != nil {
		return nil, err
	}
	value, _ := body[what.name].(string)
	if !slices.Contains(what.valid, value) {
		return nil, refuse(what.invalid, "%s is none of %s", what.name, strings.Join(what.valid, ", "))
	}
	err := r.set(q.Context(), what, q.PathValue("subject"), value)
	return map[string]string{what.name: value}, err
}

func (r *Registry) set(ctx context.Context, what setting, subject, value string) error {
	return r.view(ctx, func(*state) error {
		return r.append(ctx, event{Kind: what.name, Subject: subject, Value: value})
	})
}

func (r *Registry) dropSetting(q *http.Request, what setting) (any, error) {
	var before string
	subject := q.PathValue("subject")
	err := r.view(q.Context(), func(s *state) error {
		if what.of(s)[subject] == "" && subject != "" {
			return refuse(what.none, "Subject '%s' does not have subject-level %s configured", subject, what.name)
		}
		before = what.get(s, subject)
		return r.append(q.Context(), event{Kind: what.name, Subject: subject})
	})
	return map[string]string{what.answerName(): before}, err
}
