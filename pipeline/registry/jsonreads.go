package registry

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of one comparison of JSON Schemas.
const (
	maxJSONSteps    = 20000 // pairs of schemas
	maxJSONDepth    = 64    // levels of nesting
	maxJSONProblems = 10    // that are told
	maxJSONParts    = 500   // schemas that hold together, by $ref and allOf
)

// readsJSON says whether whatever is valid for the writer's schema is valid for the reader's. It proves that, keyword by
// keyword; what it cannot prove is a problem, told as one that "could not be judged" where the answer may be yes.
func readsJSON(reader, writer whole) error {
	if reader.key() == writer.key() {
		return nil
	}
	r, validates, err := parseJSON(reader)
	if err != nil {
		return err
	}
	w, validatesToo, err := parseJSON(writer)
	if err != nil {
		return err
	}
	problems := newJSONProof(validates && validatesToo).within(r, []*jsonschema.Schema{w}, "#", 0)
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	problems = slices.Compact(problems)
	more := ""
	if n := len(problems) - maxJSONProblems; n > 0 {
		problems, more = problems[:maxJSONProblems], fmt.Sprintf("; and %d more", n)
	}
	return errors.New(strings.Join(problems, "; ") + more)
}

// jsonProof is one comparison.
type jsonProof struct {
	validates bool // values can be validated with the schemas
	steps     int
	open      map[string]bool                           // pairs whose proof has begun: a schema that contains itself
	cut       map[*jsonschema.Schema]*jsonschema.Schema // schemas without their alternatives
}

func newJSONProof(validates bool) *jsonProof {
	return &jsonProof{validates: validates, open: map[string]bool{}, cut: map[*jsonschema.Schema]*jsonschema.Schema{}}
}

// flat returns schemas with what holds besides: their $ref and allOf. It stops above maxJSONParts.
func flat(list []*jsonschema.Schema, into []*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range list {
		if len(into) > maxJSONParts {
			return into
		}
		if s == nil || slices.Contains(into, s) {
			continue
		}
		into = append(into, s)
		into = flat([]*jsonschema.Schema{s.Ref}, into)
		into = flat(s.AllOf, into)
	}
	return into
}

func one(at, format string, args ...any) []string {
	return []string{at + ": " + fmt.Sprintf(format, args...)}
}

func notJudged(at, keyword string) []string {
	return one(at, "%s could not be judged", keyword)
}

// within proves that what is valid for all of w is valid for r, and returns what stands against it.
func (p *jsonProof) within(r *jsonschema.Schema, w []*jsonschema.Schema, at string, depth int) []string {
	return p.proven(r, flat(w, nil), at, depth)
}

// proven is within for a list that is flat.
func (p *jsonProof) proven(r *jsonschema.Schema, w []*jsonschema.Schema, at string, depth int) []string {
	wants := flat([]*jsonschema.Schema{r}, nil)
	if slices.ContainsFunc(w, isNever) || !slices.ContainsFunc(wants, func(s *jsonschema.Schema) bool { return !slices.Contains(w, s) }) {
		return nil
	}
	p.steps++
	if p.steps > maxJSONSteps || depth > maxJSONDepth || len(wants) > maxJSONParts {
		return notJudged(at, "so large a schema")
	}
	key := fmt.Sprintf("%p", r)
	for _, s := range w {
		key += fmt.Sprintf(" %p", s)
	}
	if p.open[key] {
		return nil
	}
	p.open[key] = true
	defer delete(p.open, key)
	f := newJSONFacts(w)
	if f.types == 0 {
		return nil // nothing is valid for w
	}
	if f.values != nil && p.validates {
		return listed(r, f.values, at)
	}
	var problems []string
	for _, want := range wants {
		problems = append(problems, p.keywords(want, f, at, depth)...)
	}
	if len(problems) == 0 {
		return nil
	}
	// Each alternative of the writer by itself may do what all of them together did not show.
	for i, s := range w {
		options := append(slices.Clone(s.AnyOf), s.OneOf...)
		if len(s.AnyOf) > 0 && len(s.OneOf) > 0 {
			options = s.AnyOf
		}
		if len(options) == 0 {
			continue
		}
		rest := slices.Clone(w)
		rest[i] = p.without(s)
		var left []string
		for _, o := range options {
			left = append(left, p.proven(r, flat([]*jsonschema.Schema{o}, slices.Clone(rest)), at, depth+1)...)
		}
		return left
	}
	return problems
}

// without returns a schema without its alternatives and without what flat has taken out of it already.
func (p *jsonProof) without(s *jsonschema.Schema) *jsonschema.Schema {
	if known, ok := p.cut[s]; ok {
		return known
	}
	c := *s
	if len(c.AnyOf) > 0 {
		c.AnyOf = nil
	} else {
		c.OneOf = nil
	}
	p.cut[s] = &c
	return &c
}

func isNever(s *jsonschema.Schema) bool { return s.Bool != nil && !*s.Bool }

// listed looks at each value that the writer's schema allows.
func listed(r *jsonschema.Schema, values []any, at string) []string {
	for _, v := range values {
		if r.Validate(v) != nil {
			return one(at, "the value %v of an enumeration is not valid for the reader", v)
		}
	}
	return nil
}

// keywords proves each keyword of one schema, without what flat takes out of it.
func (p *jsonProof) keywords(r *jsonschema.Schema, f *jsonFacts, at string, depth int) []string {
	if isNever(r) {
		return one(at, "nothing is valid for the reader")
	}
	if slices.Contains(f.all, r) || r.Bool != nil {
		return nil
	}
	var problems []string
	if r.Types != nil {
		if allowed := typeSet(r.Types); f.types&^allowed != 0 {
			problems = one(at, "the type is %s for the reader and %s for the writer", allowed, f.types)
		}
	}
	if r.Enum != nil || r.Const != nil {
		problems = append(problems, p.enumeration(r, f, at)...)
	}
	problems = append(problems, p.alternatives(r, f, at, depth)...)
	if r.DynamicRef != nil || r.RecursiveRef != nil {
		problems = append(problems, notJudged(at, "$dynamicRef")...)
	}
	if len(r.Extensions) > 0 {
		problems = append(problems, notJudged(at, "a vocabulary")...)
	}
	if f.types&numbers != 0 {
		problems = append(problems, numeric(r, f, at)...)
	}
	if f.types&texts != 0 {
		problems = append(problems, textual(r, f, at)...)
	}
	if f.types&arrays != 0 {
		problems = append(problems, p.array(r, f, at, depth)...)
	}
	if f.types&objects != 0 {
		problems = append(problems, p.object(r, f, at, depth)...)
	}
	return problems
}

// enumeration proves enum and const. The writer's values were looked at before if they are listed.
func (p *jsonProof) enumeration(r *jsonschema.Schema, f *jsonFacts, at string) []string {
	if f.values != nil {
		return notJudged(at, "an enumeration beside a pattern in another language than Go's")
	}
	return one(at, "the reader allows only listed values, the writer others")
}

// alternatives proves anyOf, oneOf, not and if.
func (p *jsonProof) alternatives(r *jsonschema.Schema, f *jsonFacts, at string, depth int) []string {
	var problems []string
	if len(r.AnyOf) > 0 && !p.some(r.AnyOf, f, at, depth) {
		problems = one(at, "no alternative of the reader's anyOf is known to take all that the writer's schema allows: it could not be judged")
	}
	if len(r.OneOf) > 0 && !(disjoint(r.OneOf) && p.some(r.OneOf, f, at, depth)) && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool {
		return len(w.OneOf) == len(r.OneOf) && p.equal(r.OneOf, w.OneOf, at, depth)
	}) {
		problems = append(problems, one(at, "no alternative of the reader's oneOf is known to take all that the writer's schema allows, and no other the same: it could not be judged")...)
	}
	if r.Not != nil && newJSONFacts(flat([]*jsonschema.Schema{r.Not}, nil)).types&f.types != 0 && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool {
		return w.Not != nil && len(p.within(w.Not, []*jsonschema.Schema{r.Not}, at+"/not", depth+1)) == 0
	}) {
		problems = append(problems, notJudged(at, "not")...)
	}
	if r.If != nil && (r.Then != nil || r.Else != nil) && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool {
		list := func(s *jsonschema.Schema) []*jsonschema.Schema { return []*jsonschema.Schema{s} }
		return w.If != nil && p.equal(list(r.If), list(w.If), at, depth) &&
			(r.Then == nil || w.Then != nil && len(p.within(r.Then, list(w.Then), at, depth+1)) == 0) &&
			(r.Else == nil || w.Else != nil && len(p.within(r.Else, list(w.Else), at, depth+1)) == 0)
	}) {
		problems = append(problems, notJudged(at, "if")...)
	}
	return problems
}

// some says whether one of the options takes all of the writer's.
func (p *jsonProof) some(options []*jsonschema.Schema, f *jsonFacts, at string, depth int) bool {
	return slices.ContainsFunc(options, func(o *jsonschema.Schema) bool { return len(p.within(o, f.all, at, depth+1)) == 0 })
}

// equal says whether the schemas of two lists are known to allow the same, one by one.
func (p *jsonProof) equal(a, b []*jsonschema.Schema, at string, depth int) bool {
	for i := range a {
		if len(p.within(a[i], b[i:i+1], at, depth+1))+len(p.within(b[i], a[i:i+1], at, depth+1)) > 0 {
			return false
		}
	}
	return true
}

// disjoint says whether no value has the types of two options.
func disjoint(options []*jsonschema.Schema) bool {
	var seen jsonTypes
	for _, o := range options {
		t := newJSONFacts(flat([]*jsonschema.Schema{o}, nil)).types
		if seen&t != 0 {
			return false
		}
		seen |= t
	}
	return true
}

// numeric proves the keywords of numbers.
func numeric(r *jsonschema.Schema, f *jsonFacts, at string) []string {
	var problems []string
	bound := func(name string, want *big.Rat, holds func(w *jsonschema.Schema) bool) {
		if want != nil && !slices.ContainsFunc(f.all, holds) {
			problems = append(problems, one(at, "the reader has %s %s, the writer allows more", name, want.RatString())...)
		}
	}
	bound("maximum", r.Maximum, func(w *jsonschema.Schema) bool {
		return w.Maximum != nil && w.Maximum.Cmp(r.Maximum) <= 0 || w.ExclusiveMaximum != nil && w.ExclusiveMaximum.Cmp(r.Maximum) <= 0
	})
	bound("exclusiveMaximum", r.ExclusiveMaximum, func(w *jsonschema.Schema) bool {
		return w.Maximum != nil && w.Maximum.Cmp(r.ExclusiveMaximum) < 0 || w.ExclusiveMaximum != nil && w.ExclusiveMaximum.Cmp(r.ExclusiveMaximum) <= 0
	})
	bound("minimum", r.Minimum, func(w *jsonschema.Schema) bool {
		return w.Minimum != nil && w.Minimum.Cmp(r.Minimum) >= 0 || w.ExclusiveMinimum != nil && w.ExclusiveMinimum.Cmp(r.Minimum) >= 0
	})
	bound("exclusiveMinimum", r.ExclusiveMinimum, func(w *jsonschema.Schema) bool {
		return w.Minimum != nil && w.Minimum.Cmp(r.ExclusiveMinimum) > 0 || w.ExclusiveMinimum != nil && w.ExclusiveMinimum.Cmp(r.ExclusiveMinimum) >= 0
	})
	bound("multipleOf", r.MultipleOf, func(w *jsonschema.Schema) bool {
		return w.MultipleOf != nil && new(big.Rat).Quo(w.MultipleOf, r.MultipleOf).IsInt()
	})
	return problems
}

// textual proves the keywords of strings.
func textual(r *jsonschema.Schema, f *jsonFacts, at string) []string {
	problems := atLeast(r.MinLength, f, at, "minLength", func(w *jsonschema.Schema) *int { return w.MinLength })
	problems = append(problems, atMost(r.MaxLength, f, at, "maxLength", func(w *jsonschema.Schema) *int { return w.MaxLength })...)
	same := func(name, want string, of func(w *jsonschema.Schema) string) {
		if want != "" && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool { return of(w) == want }) {
			problems = append(problems, one(at, "the reader has the %s %q, the writer another or none", name, want)...)
		}
	}
	pattern := func(s *jsonschema.Schema) string {
		if s.Pattern == nil {
			return ""
		}
		return s.Pattern.String()
	}
	format := func(s *jsonschema.Schema) string {
		if s.Format == nil {
			return ""
		}
		return s.Format.Name
	}
	same("pattern", pattern(r), pattern)
	same("format", format(r), format)
	return problems
}

func atLeast(want *int, f *jsonFacts, at, name string, of func(w *jsonschema.Schema) *int) []string {
	if want != nil && *want > 0 && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool { n := of(w); return n != nil && *n >= *want }) {
		return one(at, "the reader has %s %d, the writer allows less", name, *want)
	}
	return nil
}

func atMost(want *int, f *jsonFacts, at, name string, of func(w *jsonschema.Schema) *int) []string {
	if want != nil && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool { n := of(w); return n != nil && *n <= *want }) {
		return one(at, "the reader has %s %d, the writer allows more", name, *want)
	}
	return nil
}

func sameNumber(a, b *int) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// array proves the keywords of arrays.
func (p *jsonProof) array(r *jsonschema.Schema, f *jsonFacts, at string, depth int) []string {
	problems := atLeast(r.MinItems, f, at, "minItems", func(w *jsonschema.Schema) *int { return w.MinItems })
	problems = append(problems, atMost(r.MaxItems, f, at, "maxItems", func(w *jsonschema.Schema) *int { return w.MaxItems })...)
	if r.UniqueItems && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool { return w.UniqueItems }) {
		problems = append(problems, one(at, "the reader has uniqueItems, the writer not")...)
	}
	if r.Contains != nil && !slices.ContainsFunc(f.all, func(w *jsonschema.Schema) bool {
		return w.Contains != nil && sameNumber(w.MinContains, r.MinContains) && sameNumber(w.MaxContains, r.MaxContains) &&
			p.equal([]*jsonschema.Schema{r.Contains}, []*jsonschema.Schema{w.Contains}, at, depth)
	}) {
		problems = append(problems, notJudged(at, "contains")...)
	}
	if r.UnevaluatedItems != nil {
		problems = append(problems, notJudged(at, "unevaluatedItems")...)
	}
	places := 0
	for _, s := range append([]*jsonschema.Schema{r}, f.all...) {
		prefix, _ := items(s)
		places = max(places, len(prefix))
	}
	for i := range places + 1 { // the last one stands for all that come after
		want := item(r, i)
		if want == nil {
			continue
		}
		var have []*jsonschema.Schema
		for _, s := range f.all {
			have = append(have, item(s, i))
		}
		problems = append(problems, p.within(want, have, at+"/items", depth+1)...)
	}
	return problems
}

// object proves the keywords of objects.
func (p *jsonProof) object(r *jsonschema.Schema, f *jsonFacts, at string, depth int) []string {
	problems := atLeast(r.MinProperties, f, at, "minProperties", func(w *jsonschema.Schema) *int { return w.MinProperties })
	problems = append(problems, atMost(r.MaxProperties, f, at, "maxProperties", func(w *jsonschema.Schema) *int { return w.MaxProperties })...)
	for _, name := range r.Required {
		if !f.required[name] {
			problems = append(problems, one(at, "the reader requires the property %q, the writer does not", name)...)
		}
	}
	if r.UnevaluatedProperties != nil {
		problems = append(problems, notJudged(at, "unevaluatedProperties")...)
	}
	if len(r.Dependencies)+len(r.DependentRequired)+len(r.DependentSchemas) > 0 {
		problems = append(problems, notJudged(at, "a dependency of properties")...)
	}
	if r.PropertyNames != nil {
		var have []*jsonschema.Schema
		for _, w := range f.all {
			have = append(have, w.PropertyNames)
		}
		have = append(have, stringSchema)
		problems = append(problems, p.within(r.PropertyNames, have, at+"/propertyNames", depth+1)...)
	}
	names := map[string]bool{}
	for _, s := range append([]*jsonschema.Schema{r}, f.all...) {
		for name := range s.Properties {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !p.validates && len(r.PatternProperties) > 0 {
			problems = append(problems, notJudged(at, "patternProperties")...)
			break
		}
		var have []*jsonschema.Schema
		for _, s := range f.all {
			have = append(have, property(s, name)...)
		}
		for _, want := range property(r, name) {
			problems = append(problems, p.within(want, have, at+"/properties/"+name, depth+1)...)
		}
	}
	return append(problems, p.otherProperties(r, f, at, depth)...)
}

// otherProperties proves what holds for properties that neither side names.
func (p *jsonProof) otherProperties(r *jsonschema.Schema, f *jsonFacts, at string, depth int) []string {
	var problems []string
	var have []*jsonschema.Schema // holds for all of them, whatever patterns their names fit
	for _, s := range f.all {
		if len(s.PatternProperties) == 0 {
			have = append(have, additional(s))
		}
	}
	for pattern, want := range r.PatternProperties {
		fits := slices.Clone(have)
		for _, s := range f.all {
			for other, schema := range s.PatternProperties {
				if other.String() == pattern.String() {
					fits = append(fits, schema)
				}
			}
		}
		problems = append(problems, p.within(want, fits, at+"/patternProperties", depth+1)...)
	}
	want := additional(r)
	if want == nil {
		return problems
	}
	// A writer's schema with patterns tells of the other names too, if the reader's has all of its patterns.
	for _, s := range f.all {
		if len(s.PatternProperties) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(s.PatternProperties)), func(q jsonschema.Regexp) bool {
			return !slices.ContainsFunc(slices.Collect(maps.Keys(r.PatternProperties)), func(o jsonschema.Regexp) bool { return o.String() == q.String() })
		}) {
			have = append(have, additional(s))
		}
	}
	for _, problem := range p.within(want, have, at+"/additionalProperties", depth+1) {
		problems = append(problems, problem+" (properties that neither schema names)")
	}
	return problems
}
