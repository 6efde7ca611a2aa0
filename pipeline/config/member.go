package config

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/schedule"
	"github.com/trunkline/trunkline/pipeline/spelling"
	"github.com/trunkline/trunkline/pipeline/transform"
)

// Source is one entry of sources.
type Source struct {
	Name     string
	Type     string
	Line     int    // of its name in the file
	Digest   string // of all settings, inserted values too; two of the same digest are configured alike
	Shown    string // YAML as in the file, without secrets, for people to look at
	Topic    string
	Format   codec.Format      // how its records are laid out
	Schedule schedule.Schedule // zero: it reads all the time
	Limits   connectors.Limits
	// Transforms change what goes into the log. Their lookups read it.
	Transforms []transform.Step
	Encoding   func(topic string) codec.Encoding
	Open       connectors.OpenSource
	Check      connectors.Check        // nil: the connector has none
	Compare    connectors.OpenComparer // nil: likewise
	Survey     connectors.Survey       // nil: likewise
	Guard      connectors.Guard        // nil: likewise, or max_retained is not set
	Foresee    connectors.Foresee      // nil: opening it changes nothing in its system
	Retain     Retain
}

// Retain bounds what the server of a source may keep for it.
type Retain struct {
	Max connectors.Size `yaml:"max_retained"`    // 0: no bound
	On  string          `yaml:"on_max_retained"` // stop or resync
}

// What happens when the server keeps more: in both cases it is told to forget the source. Then the source stands before the
// gap until a person resyncs it, or reads its tables anew by itself.
const (
	RetainStop   = "stop"
	RetainResync = "resync"
)

// Validate checks the settings offline.
func (r *Retain) Validate() error {
	var errs []error
	if r.Max < 0 {
		errs = append(errs, errors.New("max_retained is less than nothing"))
	}
	if r.On != RetainStop && r.On != RetainResync {
		errs = append(errs, errors.New("on_max_retained is not one of stop, resync"))
	}
	return errors.Join(errs...)
}

// Sink is one entry of sinks.
type Sink struct {
	Name    string
	Type    string
	Line    int    // of its name in the file
	Digest  string // of all settings, inserted values too; two of the same digest are configured alike
	Shown   string // YAML as in the file, without secrets, for people to look at
	Topics  []string
	Group   string
	From    log.Start
	OnError OnError
	Limits  connectors.Limits
	Wait    time.Duration
	// Complete says whether what updates left out is taken from the log's own latest record of the row; nil: for sinks that
	// write whole rows.
	Complete *bool
	// Transforms change what the sink gets.
	Transforms []transform.Step
	Open       connectors.OpenSink
	Check      connectors.Check        // nil: the connector has none
	Compare    connectors.OpenComparer // nil: likewise
	Foresee    connectors.Foresee      // nil: the connector cannot tell
	Verify     Verify
}

// Verify says how often a sink is compared with its sources while both run.
type Verify struct {
	Every  time.Duration `yaml:"every"`  // 0: only when asked
	Repair bool          `yaml:"repair"` // send rows that differ through the log again
	Window time.Duration `yaml:"window"` // how long a change needs at most from its commit into the log, for a source that polls; 5s
}

// Validate checks the settings offline.
func (v *Verify) Validate() error {
	if v.Every < 0 || v.Window <= 0 {
		return errors.New("every and window are lengths of time above nothing: verify: {every: 1h}")
	}
	return nil
}

// defaultWindow is longer than the line needs unless something is wrong.
const defaultWindow = 5 * time.Second

// OnError says what happens to a row that a sink refuses.
type OnError string

// A refused row goes to the dead-letter topic, or stops the sink.
const (
	DeadLetter OnError = "dead_letter"
	Stop       OnError = "stop"
)

// DefaultTopic is the template that names the topic of a table.
const DefaultTopic = "{source}.{schema}.{table}"

// sourceKeys is the part of a source that the pipeline reads; the connector reads the rest.
type sourceKeys struct {
	Type     string            `yaml:"type"`
	Topic    string            `yaml:"topic"`
	Batch    Batch             `yaml:"batch"`
	Schedule schedule.Schedule `yaml:"schedule"`

	Transforms []transform.Step `yaml:"transforms"`

	codec.Format `yaml:",inline"`
	encodings    `yaml:",inline"`
	Retain       `yaml:",inline"`
}

// placeholder is what stands in braces in a topic template.
var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

func (k *sourceKeys) Validate() error {
	var errs []error
	for _, m := range placeholder.FindAllStringSubmatch(k.Topic, -1) {
		if m[1] != "source" && m[1] != "schema" && m[1] != "table" && m[1] != "database" {
			errs = append(errs, fmt.Errorf("topic has {%s}, which is none of {source}, {schema}, {table}, {database}", m[1]))
		}
	}
	if err := log.CheckTopicName(placeholder.ReplaceAllString(k.Topic, "x")); err != nil {
		errs = append(errs, fmt.Errorf("topic is no template of a topic's name: letters, digits, dot, underscore, hyphen and {placeholders}"))
	}
	if log.IsInternal(k.Topic) {
		errs = append(errs, fmt.Errorf("topic begins with %s, which is kept for internal topics", log.InternalPrefix))
	}
	errs = append(errs, k.Format.Validate())
	errs = append(errs, split(k.Retain.Validate())...)
	errs = append(errs, split(k.encodings.validate(k.Envelope))...)
	return errors.Join(errs...)
}

// sinkKeys is the part of a sink that the pipeline reads; the connector reads the rest.
type sinkKeys struct {
	Type       string           `yaml:"type"`
	Topics     []string         `yaml:"topics"`
	Group      string           `yaml:"group"`
	From       start            `yaml:"from"`
	OnError    OnError          `yaml:"on_error"`
	Batch      Batch            `yaml:"batch"`
	Transforms []transform.Step `yaml:"transforms"`
	Verify     Verify           `yaml:"verify"`
	Complete   *bool            `yaml:"complete"`
}

func (k *sinkKeys) Validate() error {
	var errs []error
	if len(k.Topics) == 0 || slices.Contains(k.Topics, "") {
		errs = append(errs, errors.New(`topics is missing or has an empty name; topics: ["*"] takes all`))
	}
	if k.Verify.Every > 0 && len(k.Transforms) > 0 {
		errs = append(errs, errors.New("verify has every, and transforms change rows: they could not be compared with those of the sources"))
	}
	if k.OnError != DeadLetter && k.OnError != Stop {
		errs = append(errs, errors.New("on_error is not one of dead_letter, stop"))
	}
	if strings.HasPrefix(k.Group, log.InternalPrefix) {
		errs = append(errs, fmt.Errorf("group begins with %s, which is kept for internal groups", log.InternalPrefix))
	}
	return errors.Join(errs...)
}

// start is the text form of log.Start.
type start log.Start

func (s *start) UnmarshalText(text []byte) error {
	parsed, err := ParseStart(string(text))
	*s = start(parsed)
	return err
}

// ParseStart reads earliest, latest, a time (RFC 3339) or a date (midnight UTC).
func ParseStart(text string) (log.Start, error) {
	switch text {
	case "earliest":
		return log.Start{}, nil
	case "latest":
		return log.Start{Latest: true}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return log.Start{At: at}, nil
		}
	}
	return log.Start{}, errors.New("not one of earliest, latest, or a time such as 2026-01-30T12:00:00Z")
}

// defaultWait is how long a sink collects a batch.
const defaultWait = 200 * time.Millisecond

func (d *decoder) sources(n *yaml.Node, registry connectors.Registry, taken map[string]*yaml.Node) []Source {
	list, _ := d.entries(n, "sources")
	var out []Source
	for _, e := range list {
		keys := sourceKeys{Topic: DefaultTopic, Format: codec.DefaultFormat(), encodings: encodings{Encoding: codec.EncodingJSON}, Retain: Retain{On: RetainStop}}
		m, ok := d.member(e, "sources", reflect.ValueOf(&keys).Elem(), taken)
		if !ok {
			continue
		}
		s := Source{Name: e.name, Type: keys.Type, Line: e.key.Line, Digest: digest(e.value), Shown: d.shown(e.value), Topic: keys.Topic, Format: keys.Format, Schedule: keys.Schedule, Limits: keys.Batch.limits(),
			Transforms: keys.Transforms, Encoding: keys.encodings.of, Retain: keys.Retain}
		d.scoped(m.path, s.Transforms)
		c, ok := d.connector(m, keys.Type, registry, "source", func(c connectors.Connector) bool { return c.Source != nil })
		if ok {
			s.Open = settings(d, m, c.Source)
			s.Check = settings(d, m, c.CheckSource)
			s.Compare = settings(d, m, c.CompareSource)
			s.Survey = settings(d, m, c.Survey)
			s.Foresee = settings(d, m, c.ForeseeSource)
			if s.Retain.Max > 0 && c.Guard == nil {
				d.failNamed(m.all, e.key.Line, m.path, fmt.Sprintf("max_retained: no server keeps anything for a source of type %s", keys.Type))
			} else if s.Retain.Max > 0 {
				s.Guard = settings(d, m, c.Guard)
			}
		}
		out = append(out, s)
	}
	return out
}

func (d *decoder) sinks(n *yaml.Node, registry connectors.Registry, taken map[string]*yaml.Node) []Sink {
	list, _ := d.entries(n, "sinks")
	var out []Sink
	groups := map[string]string{}
	for _, e := range list {
		keys := sinkKeys{OnError: DeadLetter, Batch: Batch{Wait: defaultWait}, Verify: Verify{Window: defaultWindow}}
		m, ok := d.member(e, "sinks", reflect.ValueOf(&keys).Elem(), taken)
		if !ok {
			continue
		}
		s := Sink{
			Name: e.name, Type: keys.Type, Line: e.key.Line, Digest: digest(e.value), Shown: d.shown(e.value), Topics: keys.Topics, Group: cmp.Or(keys.Group, e.name),
			From: log.Start(keys.From), OnError: keys.OnError, Limits: keys.Batch.limits(), Wait: keys.Batch.Wait, Complete: keys.Complete,
			Verify:     keys.Verify,
			Transforms: keys.Transforms,
		}
		if other, shared := groups[s.Group]; shared {
			d.failNamed(m.all, e.key.Line, m.path, fmt.Sprintf("group %s is also the group of sink %s: each would get only a part of the records", s.Group, other))
		}
		groups[s.Group] = s.Name
		c, ok := d.connector(m, keys.Type, registry, "sink", func(c connectors.Connector) bool { return c.Sink != nil })
		if ok {
			s.Limits = keys.Batch.or(c.SinkBatch).limits()
			s.Open = settings(d, m, c.Sink)
			s.Check = settings(d, m, c.CheckSink)
			s.Compare = settings(d, m, c.CompareSink)
			s.Foresee = settings(d, m, c.ForeseeSink)
		}
		out = append(out, s)
	}
	return out
}

// digest sums up what stands below a name, whatever its comments and its form. It never leaves the process: a short secret
// could be guessed from it.
func digest(n *yaml.Node) string {
	h := sha256.New()
	nodes := 0
	var walk func(n *yaml.Node, depth int)
	walk = func(n *yaml.Node, depth int) {
		if nodes++; depth > maxDepth || nodes > maxNodes {
			return // aliases unfold to more than a file may have, which is reported elsewhere
		}
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		fmt.Fprintf(h, "%d %s %d %q\n", n.Kind, n.Tag, len(n.Content), n.Value)
		for _, c := range n.Content {
			walk(c, depth+1)
		}
	}
	walk(n, 0)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// or fills in what is not set with the defaults of a connector.
func (b Batch) or(l connectors.Limits) Batch {
	b.Rows, b.Bytes = cmp.Or(b.Rows, l.BatchRows), cmp.Or(b.Bytes, connectors.Size(l.BatchBytes))
	return b
}

func (b Batch) limits() connectors.Limits {
	return connectors.Limits{BatchRows: b.Rows, BatchBytes: int(b.Bytes)}.WithDefaults()
}

// member is one source or sink while it is decoded.
type member struct {
	path   string
	line   int
	all    []entry
	rest   []entry  // without the keys of the pipeline
	common []string // the keys of the pipeline, for hints
}

// memberName keeps names usable as prefix of a topic, as a group, and as a word of a command. The dot is left out
// because it separates a topic's parts.
var memberName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// member checks the name and decodes the keys that the pipeline reads into common.
func (d *decoder) member(e entry, role string, common reflect.Value, taken map[string]*yaml.Node) (member, bool) {
	m := member{path: join(role, e.name), line: e.key.Line}
	if !memberName.MatchString(e.name) {
		d.fail(e.key.Line, m.path, "a name is 1 to 100 letters, digits, underscores and hyphens, and begins with a letter or digit")
	}
	if other, ok := taken[e.name]; ok {
		d.fail(e.key.Line, m.path, fmt.Sprintf("the name is taken by the one in line %d: commands could not tell them apart", other.Line))
	}
	taken[e.name] = e.key
	var ok bool
	if m.all, ok = d.entries(e.value, m.path); !ok {
		return m, false
	}
	known := fieldsOf(common.Type())
	m.common = known.names()
	var own []entry
	for _, item := range m.all {
		if _, mine := known[item.name]; mine {
			own = append(own, item)
		} else {
			m.rest = append(m.rest, item)
		}
	}
	before := len(d.errs)
	d.structure(own, common, m.path, nil)
	d.validated(common, m.all, m.line, m.path, before)
	return m, true
}

// connector finds the connector of a type that can play the role.
func (d *decoder) connector(m member, name string, registry connectors.Registry, role string, plays func(connectors.Connector) bool) (connectors.Connector, bool) {
	var valid []string
	for _, n := range registry.Names() {
		if plays(registry[n]) {
			valid = append(valid, n)
		}
	}
	if slices.Contains(valid, name) {
		return registry[name], true
	}
	i := slices.IndexFunc(m.all, func(e entry) bool { return e.name == "type" })
	if i < 0 {
		d.fail(m.line, m.path, "type is missing; valid here: "+strings.Join(valid, ", "))
		return connectors.Connector{}, false
	}
	value := m.all[i].value
	if d.broken[value] || value.Kind != yaml.ScalarNode {
		return connectors.Connector{}, false // reported already
	}
	problem := fmt.Sprintf("%s is no type of %s", d.describe(value), role)
	if _, exists := registry[name]; exists {
		problem = fmt.Sprintf("%s cannot be a %s", d.describe(value), role)
	}
	problem += "; valid here: " + strings.Join(valid, ", ")
	d.errs = append(d.errs, Error{File: d.file, Line: value.Line, Path: join(m.path, "type"), Problem: problem, Hint: spelling.Nearest(name, valid)})
	return connectors.Connector{}, false
}

// errReported stands for findings that the decoder has noted with their lines.
var errReported = errors.New("settings are not valid")

// settings runs one function of a connector over its part of the file. The zero T stands for a function that the
// connector does not have, and for one that failed.
func settings[T any](d *decoder, m member, read func(connectors.Decode) (T, error)) T {
	var none T
	if read == nil {
		return none
	}
	result, err := read(func(into any) error { return d.part(m, into) })
	if err == nil {
		return result
	}
	if !errors.Is(err, errReported) {
		for _, problem := range split(err) {
			d.failNamed(m.all, m.line, m.path, problem.Error())
		}
	}
	return none
}

// part is the connectors.Decode of one member.
func (d *decoder) part(m member, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode settings into %T: not a pointer to a struct", into)
	}
	before := len(d.errs)
	d.structure(m.rest, v.Elem(), m.path, m.common)
	d.validated(v.Elem(), m.all, m.line, m.path, before)
	if len(d.errs) > before {
		return errReported
	}
	return nil
}
