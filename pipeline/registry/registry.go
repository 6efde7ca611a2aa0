// Package registry keeps the schemas of topics in Avro, Protobuf and JSON Schema: in the log itself, served as Confluent's schema
// registry is, or in a registry elsewhere.
//
// It promises that an id names one schema for ever, that what a schema refers to stays, that a subject's versions are
// checked against the compatibility that was asked for, and that whatever was answered is durable. The state is a
// compacted topic, which every process on the log reads in the same order, so all of them answer alike. It knows no
// tables; package ingest registers what package codec makes of them, and the command's HTTP listener serves Handler at
// /registry.
package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/trunkline/trunkline/log"
)

// Topic holds the state: one record for each version of each subject, and for each setting and deletion.
const Topic = log.InternalPrefix + "registry"

var partition = log.TopicPartition{Topic: Topic}

// Limits of what is stored.
const (
	maxSchema  = 1 << 20 // bytes of one schema
	maxSubject = 512     // bytes of a name
)

// Schema is a schema and its language.
type Schema struct {
	Type       string // AVRO, PROTOBUF, JSON
	Text       string
	References []Reference // what Text names without saying what it is
}

// Version is one version of a subject.
type Version struct {
	Subject string
	Version int
	ID      int32
	Schema
	Deleted bool
}

// Error is a refusal, with the code that Confluent's API has for it.
type Error struct {
	Code    int // 40401 and so on; the first three digits are the HTTP status
	Problem string
}

func (e *Error) Error() string { return e.Problem }

func refuse(code int, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Codes of refusals.
const (
	noSubject       = 40401
	noVersion       = 40402
	noSchema        = 40403
	softDeleted     = 40404
	notSoftDeleted  = 40405
	noConfig        = 40408
	noMode          = 40409
	incompatible    = 40901
	invalidSchema   = 42201
	invalidVersion  = 42202
	invalidLevel    = 42203
	invalidMode     = 42204
	notPermitted    = 42205
	referenced      = 42206
	internalProblem = 50001
)

// Registry is the registry of a log. Its methods may be called at the same time.
type Registry struct {
	journal log.Log

	mu       sync.Mutex
	consumer log.Consumer
	next     int64 // offset of the first record that was not read yet
	state    state
}

// state is what the records say, applied in their order.
type state struct {
	subjects map[string][]Version // by version; those deleted for good are gone
	last     map[string]int       // highest version that a subject ever had
	ids      map[string]int32     // by type, text and references
	schemas  map[int32]Schema
	users    map[place][]place // the versions that name a version
	levels   map[string]string // compatibility; "" is for all
	modes    map[string]string
}

func newState() state {
	return state{subjects: map[string][]Version{}, last: map[string]int{}, ids: map[string]int32{}, schemas: map[int32]Schema{},
		users: map[place][]place{}, levels: map[string]string{}, modes: map[string]string{}}
}

// New returns the registry of a log. It reads nothing before it is asked.
func New(journal log.Log) *Registry { return &Registry{journal: journal, state: newState()} }

// event is the value of a record. Names in it never change; more may be added.
type event struct {
	Kind       string      `json:"kind"` // schema, compatibility, mode, delete
	Subject    string      `json:"subject,omitempty"`
	Type       string      `json:"type,omitempty"`
	Schema     string      `json:"schema,omitempty"`
	References []Reference `json:"references,omitempty"`
	Version    int         `json:"version,omitempty"`
	Permanent  bool        `json:"permanent,omitempty"`
	Value      string      `json:"value,omitempty"` // of a setting; none: it is taken back
}

// key makes the record's key: unique for a schema and a deletion, so that compaction keeps them; of a setting its place.
func (e event) key() []byte {
	key := e.Kind + "/" + e.Subject
	if e.Kind == "schema" || e.Kind == "delete" {
		key += "/" + rand.Text()
	}
	return []byte(key)
}

// apply takes a record in. The id of a schema is one above the offset of the first record that has it, so that no two
// processes can give one id to two schemas. A schema that names what another process deletes at the same moment, and the
// deletion of what another process' schema names, are undone by whichever record is the first.
func (s *state) apply(offset int64, e event) {
	switch e.Kind {
	case "schema":
		if !s.stands(e.References) {
			return
		}
		schema := Schema{e.Type, e.Schema, e.References}
		id, ok := s.ids[schema.key()]
		if !ok {
			id = int32(offset + 1)
			s.ids[schema.key()], s.schemas[id] = id, schema
		}
		for _, v := range s.subjects[e.Subject] {
			if v.ID == id && !v.Deleted {
				return // two processes at the same moment
			}
		}
		s.last[e.Subject]++
		s.subjects[e.Subject] = append(s.subjects[e.Subject], Version{Subject: e.Subject, Version: s.last[e.Subject], ID: id, Schema: s.schemas[id]})
		for _, f := range e.References {
			s.users[f.place()] = append(s.users[f.place()], place{e.Subject, s.last[e.Subject]})
		}
	case "compatibility":
		set(s.levels, e.Subject, e.Value)
	case "mode":
		set(s.modes, e.Subject, e.Value)
	case "delete":
		list := s.subjects[e.Subject]
		i := slices.IndexFunc(list, func(v Version) bool { return v.Version == e.Version })
		switch {
		case i < 0 || s.free(list[i], e.Permanent) != nil:
		case e.Permanent:
			for _, f := range list[i].References {
				s.users[f.place()] = slices.DeleteFunc(s.users[f.place()], func(p place) bool { return p == place{e.Subject, e.Version} })
			}
			if list = slices.Delete(slices.Clone(list), i, i+1); len(list) == 0 {
				delete(s.subjects, e.Subject)
			} else {
				s.subjects[e.Subject] = list
			}
		default:
			list = slices.Clone(list)
			list[i].Deleted = true
			s.subjects[e.Subject] = list
		}
	}
}

func set(m map[string]string, name, value string) {
	if value == "" {
		delete(m, name)
		return
	}
	m[name] = value
}

// append makes an event durable and applies it, with whatever others wrote before it. The lock is held.
func (r *Registry) append(ctx context.Context, e event) error {
	value, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := r.journal.Append(ctx, partition, log.Record{Key: e.key(), Value: value}); err != nil {
		return fmt.Errorf("store in the schema registry: %w", err)
	}
	return r.catchUp(ctx)
}

// catchUp reads what was stored since the last call, by this process or another. The lock is held.
func (r *Registry) catchUp(ctx context.Context) error {
	end, err := r.end(ctx)
	if err != nil {
		return fmt.Errorf("read the schema registry: %w", err)
	}
	if r.next >= end {
		return nil
	}
	if r.consumer == nil {
		if r.consumer, err = r.journal.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{partition}}); err != nil {
			return fmt.Errorf("read the schema registry: %w", err)
		}
	}
	for r.next < end {
		fetch, err := r.consumer.Poll(ctx, 1000)
		if err != nil {
			return errors.Join(fmt.Errorf("read the schema registry: %w", err), r.drop(context.WithoutCancel(ctx)))
		}
		for i := range fetch.Records {
			var e event
			if record := &fetch.Records[i]; json.Unmarshal(record.Value, &e) == nil {
				r.state.apply(record.Offset, e)
			}
		}
		r.next = fetch.Next
	}
	return nil
}

// end returns the end of the topic, which it makes if there is none.
func (r *Registry) end(ctx context.Context) (int64, error) {
	for {
		topic, err := r.journal.Topic(ctx, Topic)
		if err == nil {
			return topic.Partitions[0].LastStable, nil
		}
		if !errors.Is(err, log.ErrUnknownTopic) {
			return 0, err
		}
		err = r.journal.CreateTopic(ctx, Topic, log.TopicConfig{Partitions: 1, Retention: log.Forever, Compact: true})
		if err != nil && !errors.Is(err, log.ErrTopicExists) {
			return 0, err
		}
	}
}

// drop forgets what was read: the next call begins at the start.
func (r *Registry) drop(ctx context.Context) error {
	consumer := r.consumer
	r.consumer, r.next, r.state = nil, 0, newState()
	if consumer == nil {
		return nil
	}
	return consumer.Close(ctx)
}

// Close ends reading. The registry can be used again afterwards.
func (r *Registry) Close(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drop(ctx)
}

// view calls f with the state of now.
func (r *Registry) view(ctx context.Context, f func(s *state) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	return f(&r.state)
}

// Register returns the id of a schema, which becomes the newest version of the subject unless it is one of its versions.
func (r *Registry) Register(ctx context.Context, subject string, schema Schema) (id int32, err error) {
	if subject == "" || len(subject) > maxSubject {
		return 0, refuse(invalidSchema, "a subject has 1 to %d bytes", maxSubject)
	}
	fresh, err := r.check(ctx, schema, false)
	if err != nil {
		return 0, err
	}
	schema = fresh.Schema
	err = r.view(ctx, func(s *state) error {
		if v, ok := s.find(subject, schema); ok && !v.Deleted {
			id = v.ID
			return nil
		}
		if mode := s.mode(subject); mode != "READWRITE" {
			return refuse(notPermitted, "subject %s is in mode %s", subject, mode)
		}
		if problems := s.incompatible(subject, fresh); len(problems) > 0 {
			return refuse(incompatible, "the schema is incompatible with an earlier one of subject %s (compatibility %s): %s; "+
				"PUT /config/%s {\"compatibility\": \"NONE\"} lets it in", subject, s.level(subject), strings.Join(problems, "; "), subject)
		}
		if err := r.append(ctx, event{Kind: "schema", Subject: subject, Type: schema.Type, Schema: schema.Text, References: schema.References}); err != nil {
			return err
		}
		v, ok := r.state.find(subject, schema)
		if !ok && !r.state.stands(schema.References) {
			return refuse(invalidSchema, "a schema that subject %s refers to was deleted at the same moment", subject)
		}
		if !ok {
			return fmt.Errorf("store schema of %s: it is not there", subject)
		}
		id = v.ID
		return nil
	})
	return id, err
}

// check returns a schema in its canonical form with all that it needs. It may need what is deleted, if asked for.
func (r *Registry) check(ctx context.Context, schema Schema, deleted bool) (fresh whole, err error) {
	if schema.Type == "" {
		schema.Type = "AVRO"
	}
	fresh.Schema = schema
	if len(schema.References) > 0 {
		err = r.view(ctx, func(s *state) error {
			fresh, err = s.resolve(schema, deleted)
			return err
		})
	}
	if err == nil {
		fresh.Schema, err = canonical(fresh)
	}
	return fresh, err
}

// find returns the version of a subject with a schema; one that is not deleted where there are several.
func (s *state) find(subject string, schema Schema) (Version, bool) {
	var found Version
	ok := false
	key := schema.key()
	for _, v := range s.subjects[subject] {
		if v.key() == key {
			found, ok = v, true
			if !v.Deleted {
				return v, true
			}
		}
	}
	return found, ok
}

// live returns the versions of a subject that are not deleted.
func (s *state) live(subject string) []Version {
	var out []Version
	for _, v := range s.subjects[subject] {
		if !v.Deleted {
			out = append(out, v)
		}
	}
	return out
}

func (s *state) level(subject string) string {
	if level := s.levels[subject]; level != "" {
		return level
	}
	if level := s.levels[""]; level != "" {
		return level
	}
	return "BACKWARD"
}

func (s *state) mode(subject string) string {
	if mode := s.modes[subject]; mode != "" {
		return mode
	}
	if mode := s.modes[""]; mode != "" {
		return mode
	}
	return "READWRITE"
}

// incompatible says how a schema does not go with the versions of a subject that its compatibility is about.
func (s *state) incompatible(subject string, fresh whole) []string {
	level := s.level(subject)
	versions := s.live(subject)
	if transitive := strings.HasSuffix(level, "_TRANSITIVE"); !transitive && len(versions) > 1 {
		versions = versions[len(versions)-1:]
	}
	var problems []string
	for i := len(versions) - 1; i >= 0; i-- {
		problems = append(problems, s.compare(level, fresh, versions[i])...)
	}
	return problems
}

// compare says how a schema does not go with a version.
func (s *state) compare(level string, fresh whole, v Version) []string {
	old, err := s.resolve(v.Schema, true)
	if err != nil {
		return []string{fmt.Sprintf("version %d: %v", v.Version, err)}
	}
	return compare(level, fresh, old)
}
