package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// maxRoutes bounds how many versions of tables are remembered; beyond it, the writer starts afresh.
const maxRoutes = 4096

// route is where the changes of one version of a table go.
type route struct {
	table      *connectors.Table
	topic      string
	schema     []byte // the schema id, decimal
	encoder    codec.Encoder
	encoding   []byte // for the header; nil: JSON
	compacted  bool
	maxBytes   int
	partitions []*pending
	meter      *tableMeter
	lineage    *lineage
	rows       int64    // changes since the last commit
	traced     bool     // its rows are events that carry a traceparent of their own
	held       *pending // where changes of a paused table wait; nil: it is not
}

// lineage tells which version of a table came last, in the stream and in a snapshot beside it. Only a change from one
// version to another is a step of the table: a snapshot that runs ahead of the stream does not make one of each row.
type lineage struct {
	last [2]*connectors.Table
}

// class is the place of an operation in a lineage.
func class(op connectors.Op) int {
	if op == connectors.Snapshot {
		return 1
	}
	return 0
}

// placeholders are what a template may name.
var placeholders = []string{"{source}", "{database}", "{schema}", "{table}"}

// CheckTemplate reports a template of topic names that names something unknown, or would give every table no name.
func CheckTemplate(template string) error {
	rest := template
	for _, p := range placeholders {
		rest = strings.ReplaceAll(rest, p, "")
	}
	if i := strings.IndexAny(rest, "{}"); i >= 0 {
		return fmt.Errorf("topic template %q: only %s can stand in braces", template, strings.Join(placeholders, " "))
	}
	if template == "" {
		return errors.New("topic template is empty")
	}
	return nil
}

// TopicName returns the topic of a table: the one the user named for it, or the template filled in. A part that the
// table does not have (a database without schemas) disappears together with the dot behind it. Each character that
// cannot stand in a topic's name becomes an underscore.
func TopicName(template, source string, t *connectors.Table) string {
	name := t.Topic
	if name == "" {
		for i, value := range []string{source, t.Database, t.Schema, t.Name} {
			if value == "" {
				template = strings.ReplaceAll(template, placeholders[i]+".", "")
			}
			template = strings.ReplaceAll(template, placeholders[i], legal(value))
		}
		name = template
	}
	if name = legal(name); name == "." || name == ".." || name == "" {
		name = strings.Repeat("_", max(1, len(name)))
	}
	return name
}

func legal(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}

// route finds or makes the topic and the schema of a table.
func (w *writer) route(ctx context.Context, t *connectors.Table, op connectors.Op) (*route, error) {
	if w.last != nil && w.last.table == t && w.last.lineage.last[class(op)] == t {
		return w.last, nil
	}
	r := w.routes[t]
	if r == nil {
		var err error
		if r, err = w.newRoute(ctx, t); err != nil {
			return nil, err
		}
		if len(w.routes) >= maxRoutes {
			clear(w.routes)
			clear(w.lineages)
		}
		w.routes[t] = r
	}
	if last := &r.lineage.last[class(op)]; *last != t {
		id, err := w.o.Schemas.ID(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("route table %s: %w", t.FullName(), err)
		}
		r.schema = strconv.AppendInt(nil, id, 10)
		*last = t
	}
	w.last = r
	return r, nil
}

// lineageOf returns the lineage of a table, whatever its version.
func (w *writer) lineageOf(topic string, t *connectors.Table) *lineage {
	key := topic + "\x00" + t.FullName()
	l := w.lineages[key]
	if l == nil {
		l = &lineage{}
		w.lineages[key] = l
	}
	return l
}

func (w *writer) newRoute(ctx context.Context, t *connectors.Table) (*route, error) {
	name := TopicName(w.o.Topic, w.o.Source, t)
	if err := log.CheckTopicName(name); err != nil {
		return nil, fmt.Errorf("route table %s: %w: %w", t.FullName(), err, connectors.ErrFatal)
	}
	if log.IsInternal(name) {
		return nil, fmt.Errorf("route table %s: topic %q is Trunkline's own: %w", t.FullName(), name, connectors.ErrFatal)
	}
	topic, err := w.ensureTopic(ctx, name, w.o.Topics)
	if err != nil {
		return nil, fmt.Errorf("route table %s: %w", t.FullName(), err)
	}
	encoder, encoding, err := w.encoderFor(ctx, name, t)
	if err != nil {
		return nil, fmt.Errorf("route table %s: %w", t.FullName(), err)
	}
	r := &route{
		encoder: encoder, encoding: encoding,
		table: t, topic: name, lineage: w.lineageOf(name, t), compacted: topic.Config.Compact,
		maxBytes: topic.Config.MaxRecordBytes, meter: w.meter.table(t.FullName(), name), traced: carriesTrace(t),
	}
	if r.maxBytes == 0 {
		r.maxBytes = w.o.Limits.RowBytes
	}
	for i := range topic.Partitions {
		r.partitions = append(r.partitions, w.partition(log.TopicPartition{Topic: name, Partition: int32(i)}))
	}
	return r, w.hold(ctx, r)
}

// encoderFor returns how the rows of a table are written into a topic, once its schemas are registered.
func (w *writer) encoderFor(ctx context.Context, topic string, t *connectors.Table) (codec.Encoder, []byte, error) {
	e := codec.EncodingJSON
	if w.o.Encoding != nil {
		e = w.o.Encoding(topic)
	}
	if e = codec.EncodingOf(e, t); e == codec.EncodingJSON || e == "" {
		return w.encoder, nil, nil
	}
	encoder, schemas := codec.NewWire(e, w.origin, t)
	if len(schemas) == 0 {
		return encoder, []byte(e), nil
	}
	var ids [2]int32 // of key and value
	for i, s := range schemas {
		part, at := "-value", 1
		if i < len(schemas)-1 {
			part, at = "-key", 0
		}
		id, err := w.o.Register(ctx, topic+part, s)
		if err != nil {
			return nil, nil, err
		}
		ids[at] = id
	}
	encoder.(codec.Registered).Register(ids[0], ids[1])
	return encoder, []byte(e), nil
}

// ensureTopic makes the topic if there is none. Another source may make it at the same moment.
func (g *Ingest) ensureTopic(ctx context.Context, name string, c log.TopicConfig) (log.Topic, error) {
	for {
		topic, err := g.o.Journal.Topic(ctx, name)
		if err == nil || !errors.Is(err, log.ErrUnknownTopic) {
			return topic, err
		}
		err = g.o.Journal.CreateTopic(ctx, name, c)
		if err == nil {
			g.o.Logger.Info("topic created", "source", g.o.Source, "topic", name)
		} else if !errors.Is(err, log.ErrTopicExists) {
			return log.Topic{}, err
		}
	}
}
