package codec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// debeziumEncoder writes the records of the envelopes that are not our own. A number of columns and the source block are
// laid out once for each version of a table.
type debeziumEncoder struct {
	converter
	origin   Origin
	skip     map[connectors.Op]bool
	topic    func(*connectors.Table) string
	plans    map[*connectors.Table]*debeziumPlan
	last     *debeziumPlan
	numbers  stamps
	sequence sequence
}

// sequence is what Debezium puts beside the position in a log of PostgreSQL: where the transaction began.
type sequence struct {
	transaction, first string
}

// debeziumColumn is one column that is not left out.
type debeziumColumn struct {
	conversion
	index    int
	optional bool
	name     []byte // ,"name":
}

// debeziumPlan holds what is the same in every record of one version of a table.
type debeziumPlan struct {
	table     *connectors.Table
	connector *debeziumSource
	columns   []debeziumColumn
	key       []debeziumColumn
	keyHead   []byte // {"schema":…,"payload": or nothing
	valueHead []byte
	tail      []byte // } or nothing
	source    []byte // {"version":…,"ts_ms":
	place     []byte // "schema":…,"table":… with commas
	dataHead  []byte // of CloudEvents: ,"data":{"schema":…,"payload": or ,"data":
}

// NewEncoder returns the encoder of a format, for the records of one source. topic names the topic of a table, after which
// Debezium names its schemas.
func NewEncoder(f Format, o Origin, topic func(*connectors.Table) string) (Encoder, error) {
	if f.Envelope == "" || f.Envelope == Lossless {
		return NewJSON(o), nil
	}
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("encode records of %s: %w", o.Name, err)
	}
	skip, err := f.skips()
	if err != nil {
		return nil, err
	}
	return &debeziumEncoder{
		converter: converter{&f}, origin: o, skip: skip, topic: topic, plans: map[*connectors.Table]*debeziumPlan{},
	}, nil
}

// Takes leaves out skipped operations, and what the envelope has no place for: only Debezium's has one for a truncate.
func (e *debeziumEncoder) Takes(op connectors.Op) bool {
	switch op {
	case connectors.Message:
		return false
	case connectors.Truncate:
		return e.Envelope == Debezium && !e.skip[op]
	}
	return !e.skip[op]
}

// Tombstone follows tombstones.on.delete. The flat envelope marks the row instead.
func (e *debeziumEncoder) Tombstone(compacted bool) bool {
	return compacted || e.Tombstones && e.Envelope != Flat
}

// Name names the envelope.
func (e *debeziumEncoder) Name() Envelope { return e.Envelope }

func (e *debeziumEncoder) plan(t *connectors.Table) *debeziumPlan {
	if e.last != nil && e.last.table == t {
		return e.last
	}
	p := e.plans[t]
	if p == nil {
		if len(e.plans) >= maxPlans {
			clear(e.plans)
		}
		p = e.newPlan(t)
		e.plans[t] = p
	}
	e.last = p
	return p
}

func (e *debeziumEncoder) newPlan(t *connectors.Table) *debeziumPlan {
	p := &debeziumPlan{table: t, connector: sourceOf(t.Dialect, e.origin.Connector)}
	for i := range t.Columns {
		c := &t.Columns[i]
		conversion, ok := e.column(t.Dialect, c)
		if !ok {
			continue
		}
		p.columns = append(p.columns, debeziumColumn{conversion: conversion, index: i, optional: !c.NotNull, name: appendMember([]byte{','}, c.Name)})
	}
	for _, k := range t.Key {
		for _, c := range p.columns {
			if c.index == k {
				c.optional = false
				p.key = append(p.key, c)
			}
		}
	}
	for i := range p.columns {
		for _, k := range t.Key {
			p.columns[i].optional = p.columns[i].optional && p.columns[i].index != k
		}
	}
	name := e.topic(t)
	if e.Schemas {
		p.keyHead = append(structure(p.keyFields(), false, name+".Key", ""), `,"payload":`...)
		p.keyHead = append([]byte(`{"schema":`), p.keyHead...)
		p.valueHead = append([]byte(`{"schema":`), p.envelopeSchema(e, name)...)
		p.valueHead = append(p.valueHead, `,"payload":`...)
		p.tail = []byte{'}'}
	}
	if e.Envelope == CloudEvents {
		p.dataHead = p.data(e, name)
		p.valueHead, p.tail = nil, nil
	}
	p.source = appendText(append(p.source, `{"version":`...), e.origin.Version)
	p.source = appendText(append(p.source, `,"connector":`...), p.connector.name)
	p.source = appendText(append(p.source, `,"name":`...), e.origin.Name)
	p.source = append(p.source, `,"ts_ms":`...)
	p.place = p.connector.place(t)
	return p
}

// keyFields returns the schemas of the key's columns.
func (p *debeziumPlan) keyFields() []string {
	var out []string
	for _, c := range p.key {
		out = append(out, c.schema(false, p.table.Columns[c.index].Name))
	}
	return out
}

// rowFields returns the schemas of the row's columns.
func (p *debeziumPlan) rowFields() []string {
	var out []string
	for _, c := range p.columns {
		out = append(out, c.schema(c.optional, p.table.Columns[c.index].Name))
	}
	return out
}

// structure returns the schema of a struct; rest stands at its end.
func structure(fields []string, optional bool, name, rest string) []byte {
	out := `{"type":"struct","fields":[` + strings.Join(fields, ",") + `],"optional":` + strconv.FormatBool(optional) +
		`,"name":` + quoted(name) + rest + `}`
	return []byte(out)
}

const transactionSchema = `{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"},{"type":"int64","optional":false,"field":"total_order"},` +
	`{"type":"int64","optional":false,"field":"data_collection_order"}],"optional":true,"name":"event.block","version":1,"field":"transaction"}`

// envelopeSchema returns the schema of a value.
func (p *debeziumPlan) envelopeSchema(e *debeziumEncoder, name string) []byte {
	row := p.rowFields()
	if e.Envelope == Flat {
		row = append(row, `{"type":"string","optional":true,"field":"__deleted"}`)
		for _, field := range e.AddFields {
			row = append(row, `{`+addedFields[strings.TrimPrefix(field, "source.")]+`,"optional":true,"field":`+quoted(addedName(field))+`}`)
		}
		return structure(row, false, name+".Value", "")
	}
	fields := []string{
		string(structure(row, true, name+".Value", `,"field":"before"`)),
		string(structure(row, true, name+".Value", `,"field":"after"`)),
		string(structure(p.connector.fields(), false, p.connector.schemas+".Source", `,"version":1,"field":"source"`)),
		transactionSchema,
		`{"type":"string","optional":false,"field":"op"}`,
		`{"type":"int64","optional":true,"field":"ts_ms"}`, `{"type":"int64","optional":true,"field":"ts_us"}`, `{"type":"int64","optional":true,"field":"ts_ns"}`,
	}
	return structure(fields, false, name+".Envelope", `,"version":2`)
}

// AppendKey appends the key as Kafka Connect's JSON converter does.
func (e *debeziumEncoder) AppendKey(dst []byte, t *connectors.Table, row, other []connectors.Value) ([]byte, error) {
	if len(t.Key) == 0 {
		return dst, nil
	}
	p := e.plan(t)
	if len(p.key) < len(t.Key) {
		return dst, fmt.Errorf("encode key of %s: a key column has a type that envelope %s has no place for; leave the table out, or use envelope: lossless",
			t.FullName(), e.Envelope)
	}
	dst = append(dst, p.keyHead...)
	for i := range p.key {
		c := &p.key[i]
		v := valueAt(row, c.index)
		if v.IsAbsent() {
			v = valueAt(other, c.index)
		}
		if v.IsAbsent() {
			return dst, fmt.Errorf("encode key of %s: the change does not carry key column %q", t.FullName(), t.Columns[c.index].Name)
		}
		start := len(dst)
		dst = append(dst, c.name...)
		if i == 0 {
			dst[start] = '{'
		}
		dst = c.append(dst, v, false)
	}
	dst = append(dst, '}')
	if e.Schemas {
		dst = append(dst, '}')
	}
	return dst, nil
}

// append appends a value. after says that an absent value is one that the change did not touch, not one that a delete
// has no use for.
func (c *debeziumColumn) append(dst []byte, v connectors.Value, after bool) []byte {
	start := len(dst)
	switch {
	case v.IsNull():
	case v.IsAbsent() && after && c.gone != "":
		return append(dst, c.gone...)
	case v.IsAbsent():
	default:
		var ok bool
		if dst, ok = c.write(dst, v); ok {
			return dst
		}
		dst = dst[:start]
	}
	if c.optional || v.IsNull() {
		return append(dst, "null"...)
	}
	return append(dst, c.zero...)
}

// appendRow appends an image as an object.
func (p *debeziumPlan) appendRow(dst []byte, row []connectors.Value, after bool) ([]byte, error) {
	if row == nil {
		return append(dst, "null"...), nil
	}
	if len(row) != len(p.table.Columns) {
		return dst, fmt.Errorf("encode row of %s: %d values for %d columns", p.table.FullName(), len(row), len(p.table.Columns))
	}
	start := len(dst)
	for i := range p.columns {
		c := &p.columns[i]
		dst = append(dst, c.name...)
		dst = c.append(dst, row[c.index], after)
	}
	if len(dst) == start {
		return append(dst, "{}"...), nil
	}
	dst[start] = '{'
	return append(dst, '}'), nil
}

// AppendValue appends the record of a change.
func (e *debeziumEncoder) AppendValue(dst []byte, c *connectors.Change, now time.Time) ([]byte, error) {
	if c.Table == nil {
		return dst, fmt.Errorf("encode change: no table")
	}
	p := e.plan(c.Table)
	e.numbers.set(c.Time, now)
	dst = append(dst, p.valueHead...)
	var err error
	switch {
	case e.Envelope == Flat:
		dst, err = e.appendFlat(dst, p, c)
	case e.Envelope == CloudEvents:
		dst, err = e.appendEvent(dst, p, c)
	default:
		dst, err = e.appendEnvelope(dst, p, c)
	}
	return append(dst, p.tail...), err
}

func (e *debeziumEncoder) appendEnvelope(dst []byte, p *debeziumPlan, c *connectors.Change) ([]byte, error) {
	dst, err := e.appendImages(dst, p, c)
	if err != nil {
		return dst, err
	}
	dst = e.appendSource(append(dst, `,"source":`...), p, c)
	dst = append(append(dst, `,"transaction":null,"op":"`...), c.Op.Code(), '"')
	return append(e.numbers.appendNow(dst), '}'), nil
}

// appendImages appends {"before":…,"after":… without the end. PostgreSQL's updates have an old row where the source sent a
// whole one.
func (e *debeziumEncoder) appendImages(dst []byte, p *debeziumPlan, c *connectors.Change) ([]byte, error) {
	before := c.Before
	if c.Op == connectors.Update && lacks(before) {
		before = nil
	}
	dst, err := p.appendRow(append(dst, `{"before":`...), before, false)
	if err != nil {
		return dst, err
	}
	return p.appendRow(append(dst, `,"after":`...), c.After, true)
}

// lacks reports whether an image is of the key alone.
func lacks(row []connectors.Value) bool {
	for i := range row {
		if row[i].IsAbsent() {
			return true
		}
	}
	return false
}
