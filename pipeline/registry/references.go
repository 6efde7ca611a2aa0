package registry

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// maxReferences bounds the schemas that one schema needs, those that its references need included.
const maxReferences = 1000

// Reference is the use of a schema by another one, as Confluent's API has it.
type Reference struct {
	Name    string `json:"name"` // Avro: the name of the type; Protobuf: the path that is imported; JSON: what $ref says before its "#"
	Subject string `json:"subject"`
	Version int    `json:"version"` // in a request -1 for the newest, which is stored as its number
}

// place is where a reference points to, and where one stands.
type place struct {
	subject string
	version int
}

func (f Reference) place() place { return place{f.Subject, f.Version} }

// imported is a schema under the name that another one knows it by.
type imported struct {
	name string
	Schema
}

// whole is a schema with all that it needs: each of them after those that it needs itself.
type whole struct {
	Schema
	imports []imported
}

// key is the identity of a schema: the order of its references makes no difference, nor in JSON Schema that of members.
func (s Schema) key() string {
	key := s.Type + "\x00" + s.Text
	if s.Type == "JSON" {
		key = s.Type + "\x00" + sortedJSON(s.Text)
	}
	if len(s.References) > 0 {
		sorted := slices.SortedFunc(slices.Values(s.References), func(a, b Reference) int { return cmp.Compare(a.Name, b.Name) })
		text, _ := json.Marshal(sorted) // strings and numbers
		key += "\x00" + string(text)
	}
	return key
}

// resolve finds what a schema's references name, those that are deleted too if asked for, and puts numbers in the place of
// the newest version.
func (s *state) resolve(schema Schema, deleted bool) (whole, error) {
	w := resolver{s: s, deleted: deleted, names: map[string]place{}}
	references, err := w.add(schema)
	schema.References = references
	return whole{schema, w.imports}, err
}

// resolver walks through references.
type resolver struct {
	s       *state
	deleted bool
	names   map[string]place
	imports []imported
}

// add takes in what the references of a schema need, and returns them with the numbers of their versions.
func (w *resolver) add(schema Schema) ([]Reference, error) {
	if len(schema.References) == 0 {
		return nil, nil
	}
	list := slices.Clone(schema.References)
	for i, f := range list {
		if f.Name == "" || f.Subject == "" || f.Version < 1 && f.Version != -1 {
			return nil, refuse(invalidSchema, "a reference has a name, a subject and a version from 1 (or -1 for the newest): got %+v", f)
		}
		if slices.ContainsFunc(list[:i], func(o Reference) bool { return o.Name == f.Name }) {
			return nil, refuse(invalidSchema, "two references have the name %q", f.Name)
		}
		v, ok := w.s.at(f.place(), w.deleted)
		if !ok {
			return nil, refuse(invalidSchema, "No schema reference found for subject %q and version %d: register it first", f.Subject, f.Version)
		}
		if v.Type != schema.Type {
			return nil, refuse(invalidSchema, "reference %q: subject %q version %d is %s, the schema that names it %s", f.Name, f.Subject, v.Version, v.Type, schema.Type)
		}
		list[i].Version = v.Version
		f = list[i]
		if known, ok := w.names[f.Name]; ok && known != f.place() {
			return nil, refuse(invalidSchema, "reference %q names version %d of subject %q, and version %d of subject %q elsewhere in what the schema needs: use one of them",
				f.Name, f.Version, f.Subject, known.version, known.subject)
		} else if ok {
			continue
		}
		if len(w.names) == maxReferences {
			return nil, refuse(invalidSchema, "the schema needs more than %d others", maxReferences)
		}
		w.names[f.Name] = f.place()
		if _, err := w.add(v.Schema); err != nil {
			return nil, err
		}
		w.imports = append(w.imports, imported{f.Name, v.Schema})
	}
	return list, nil
}

// at returns the version at a place; the newest for -1.
func (s *state) at(p place, deleted bool) (Version, bool) {
	list := s.subjects[p.subject]
	for i := len(list) - 1; i >= 0; i-- {
		if (p.version == -1 || list[i].Version == p.version) && (deleted || !list[i].Deleted) {
			return list[i], true
		}
	}
	return Version{}, false
}

// stands says whether what a schema names can be named: what was deleted since it was looked at cannot.
func (s *state) stands(references []Reference) bool {
	return !slices.ContainsFunc(references, func(f Reference) bool {
		_, ok := s.at(f.place(), false)
		return !ok
	})
}

// referrers returns the versions that name a version, in order; those that are deleted, but not for good, if asked for.
func (s *state) referrers(p place, deleted bool) []Version {
	var out []Version
	for _, user := range s.users[p] {
		if v, ok := s.at(user, deleted); ok {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b Version) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), strings.Compare(a.Subject, b.Subject), cmp.Compare(a.Version, b.Version))
	})
	return out
}

// free refuses the deletion of a version that others name. One that is deleted, but not for good, is in the way of a
// deletion for good only, because the records that it describes are still read with what it names.
func (s *state) free(v Version, permanent bool) error {
	list := s.referrers(place{v.Subject, v.Version}, permanent)
	if len(list) == 0 {
		return nil
	}
	return refuse(referenced, "One or more references exist to the schema {subject=%s,version=%d}, the first of %d in version %d of subject %s: delete that before",
		v.Subject, v.Version, len(list), list[0].Version, list[0].Subject)
}
