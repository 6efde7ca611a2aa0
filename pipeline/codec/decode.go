package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// Decoder reads records that an Encoder wrote. It belongs to one goroutine.
type Decoder struct {
	schemas *Schemas
	plans   map[int64]*decodePlan
	last    *decodePlan
}

// decodePlan holds what is the same for every record of one schema.
type decodePlan struct {
	id      int64
	idText  []byte
	table   *connectors.Table
	names   [][]byte // "name" with its quotes, as AppendValue writes it
	indexes map[string]int
	layout  layout

	avro     *Avro     // nil until a record in Avro comes
	protobuf *Protobuf // likewise
}

// NewDecoder returns a decoder that looks up schemas in s.
func NewDecoder(s *Schemas) *Decoder {
	return &Decoder{schemas: s, plans: map[int64]*decodePlan{}}
}

// Decode reads a record into c. The values point into the record and into arena. It returns false for a record that is
// not a change (a tombstone), a RecordError for one that no second try can read, and any other error when the schema
// could not be looked up, or the topic is written in an envelope that is not Lossless.
func (d *Decoder) Decode(ctx context.Context, r *log.Record, c *connectors.Change, arena *Arena) (bool, error) {
	if r.Value == nil {
		return false, nil
	}
	if err := foreign(r); err != nil {
		return false, err
	}
	p, err := d.planOf(ctx, r)
	if err != nil {
		return false, err
	}
	*c = connectors.Change{Table: p.table, Offset: r.Offset}
	arena.room(len(r.Value))
	if err := p.decode(r, c, arena); err != nil {
		return false, &RecordError{Err: err}
	}
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderPosition {
			c.Position = r.Headers[i].Value
		}
	}
	return true, nil
}

// foreign refuses records of an envelope whose values may have lost something. It is no RecordError: all records of such a
// topic would become dead letters.
func foreign(r *log.Record) error {
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderEnvelope {
			return fmt.Errorf("decode record: its source writes envelope %s, which is for other readers: a sink reads the default envelope; "+
				"give the sink other topics, or take envelope out of the source and resync it: %w", r.Headers[i].Value, connectors.ErrFatal)
		}
	}
	return nil
}

// decode reads a record in its encoding.
func (p *decodePlan) decode(r *log.Record, c *connectors.Change, arena *Arena) error {
	switch encodingOf(r) {
	case "":
		if p.layout.decode(r.Value, c, arena) {
			return nil
		}
		*c = connectors.Change{Table: p.table, Offset: r.Offset}
		if err := p.decodeEnvelope(r.Value, c, arena); err != nil {
			return err
		}
		p.layout.learn(r.Value)
		return nil
	case EncodingAvro:
		return p.decodeAvro(r.Value, c, arena)
	case EncodingProtobuf:
		return p.decodeProtobuf(r.Value, c, arena)
	case encodingEvent:
		return p.decodeEvent(r, c, arena)
	}
	return errors.New("its header " + HeaderEncoding + " names an encoding that this version does not know")
}

// encodingOf returns what the header of a record says; none for JSON.
func encodingOf(r *log.Record) Encoding {
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderEncoding {
			return Encoding(r.Headers[i].Value)
		}
	}
	return ""
}

// SchemaOf returns the schema id that a record names.
func SchemaOf(r *log.Record) (id int64, ok bool) {
	text := schemaHeader(r)
	id, err := strconv.ParseInt(string(text), 10, 64)
	return id, err == nil && id >= 0
}

func schemaHeader(r *log.Record) []byte {
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderSchema {
			return r.Headers[i].Value
		}
	}
	return nil
}

// BarrierOf returns the id that the copies of one truncate share.
func BarrierOf(r *log.Record) (id int64, ok bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderBarrier {
			id, err := strconv.ParseInt(string(r.Headers[i].Value), 10, 64)
			return id, err == nil
		}
	}
	return 0, false
}

func (d *Decoder) planOf(ctx context.Context, r *log.Record) (*decodePlan, error) {
	text := schemaHeader(r)
	if text == nil {
		return nil, &RecordError{Err: errNoSchema}
	}
	if d.last != nil && bytes.Equal(d.last.idText, text) {
		return d.last, nil
	}
	id, ok := SchemaOf(r)
	if !ok {
		return nil, refuse("header %s is not a number", HeaderSchema)
	}
	p := d.plans[id]
	if p == nil {
		t, err := d.schemas.Table(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(d.plans) >= maxPlans {
			clear(d.plans)
		}
		p = newDecodePlan(id, t)
		d.plans[id] = p
	}
	d.last = p
	return p, nil
}

func newDecodePlan(id int64, t *connectors.Table) *decodePlan {
	p := &decodePlan{
		id: id, idText: strconv.AppendInt(nil, id, 10), table: t,
		indexes: make(map[string]int, len(t.Columns)), layout: newLayout(t),
	}
	for i, c := range t.Columns {
		p.names = append(p.names, appendText(nil, c.Name))
		p.indexes[c.Name] = i
	}
	return p
}

// members calls f with each member of the JSON object that b begins with, and returns what follows the object. f gets
// the name with its quotes and the text from the member's value on, and returns the text behind that value.
func members(b []byte, f func(name, b []byte) ([]byte, error)) ([]byte, error) {
	if len(b) == 0 || b[0] != '{' {
		return nil, errors.New("object expected")
	}
	b = skipSpace(b[1:])
	if len(b) > 0 && b[0] == '}' {
		return skipSpace(b[1:]), nil
	}
	for {
		if len(b) == 0 || b[0] != '"' {
			return nil, errors.New("name of a member expected")
		}
		name, rest, err := connectors.ScanJSON(b)
		if err != nil {
			return nil, err
		}
		if len(rest) == 0 || rest[0] != ':' {
			return nil, errors.New("colon expected")
		}
		if b, err = f(name, skipSpace(rest[1:])); err != nil {
			return nil, err
		}
		if len(b) == 0 || (b[0] != ',' && b[0] != '}') {
			return nil, errors.New("comma or end of the object expected")
		}
		end := b[0] == '}'
		if b = skipSpace(b[1:]); end {
			return b, nil
		}
	}
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

func (p *decodePlan) decodeEnvelope(value []byte, c *connectors.Change, arena *Arena) error {
	rest, err := members(skipSpace(value), func(name, b []byte) ([]byte, error) {
		var err error
		switch string(name) {
		case `"before"`:
			c.Before, b, err = p.decodeRow(b, arena)
			return b, err
		case `"after"`, `"message"`:
			if len(b) > 0 && b[0] == 'n' {
				break // one of the two is null, and must not hide the other
			}
			c.After, b, err = p.decodeRow(b, arena)
			return b, err
		case `"source"`:
			if len(b) > 0 && b[0] == '{' {
				return decodeSource(b, c)
			}
		case `"op"`:
			token, rest, err := connectors.ScanJSON(b)
			if err == nil && len(token) == 3 && token[0] == '"' {
				c.Op = connectors.OpOf(token[1])
			}
			return rest, err
		}
		_, rest, err := connectors.ScanJSON(b)
		return rest, err
	})
	if err != nil {
		return err
	}
	if len(rest) != 0 {
		return errors.New("more than one JSON value")
	}
	return checkShape(c)
}

// checkShape makes sure that a change has the images that its operation promises.
func checkShape(c *connectors.Change) error {
	switch c.Op {
	case connectors.Snapshot, connectors.Insert, connectors.Update, connectors.Message:
		if c.After == nil {
			return errors.New("after is missing")
		}
	case connectors.Delete:
		if c.Before == nil {
			return errors.New("before is missing")
		}
	case connectors.Truncate:
	default:
		return errors.New("op is missing or unknown")
	}
	return nil
}

// decodeRow reads an image, or null.
func (p *decodePlan) decodeRow(b []byte, arena *Arena) ([]connectors.Value, []byte, error) {
	if len(b) > 0 && b[0] == 'n' {
		_, rest, err := connectors.ScanJSON(b)
		return nil, rest, err
	}
	row := arena.row(len(p.names))
	next := 0
	rest, err := members(b, func(name, b []byte) ([]byte, error) {
		i, err := p.column(name, next)
		if err != nil {
			return nil, err
		}
		token, rest, err := connectors.ScanJSON(b)
		if err != nil {
			return nil, err
		}
		row[i], arena.bytes, err = connectors.ParseJSON(p.table.Columns[i].Kind, token, arena.bytes)
		next = i + 1
		return rest, err
	})
	return row, rest, err
}

// column finds a column by its name with quotes. next is where the encoder's order has it, but for absent ones.
func (p *decodePlan) column(name []byte, next int) (int, error) {
	if next < len(p.names) && bytes.Equal(p.names[next], name) {
		return next, nil
	}
	text, _, err := connectors.Unquote(name, nil)
	if err != nil {
		return 0, err
	}
	i, ok := p.indexes[string(text)]
	if !ok {
		return 0, errors.New("a column that its schema does not have")
	}
	return i, nil
}

// decodeSource reads what a change keeps of the source block: its time, and as Origin what stands behind the table.
func decodeSource(b []byte, c *connectors.Change) ([]byte, error) {
	var behind []byte
	rest, err := members(b, func(name, b []byte) ([]byte, error) {
		token, rest, err := connectors.ScanJSON(b)
		switch string(name) {
		case `"ts_ms"`:
			ms, numberErr := strconv.ParseInt(string(token), 10, 64)
			if err == nil && numberErr == nil && ms != 0 {
				c.Time = time.UnixMilli(ms).UTC()
			}
		case `"table"`:
			behind = rest
		}
		return rest, err
	})
	if err != nil || len(behind) == 0 || behind[0] != ',' {
		return rest, err
	}
	object := skipSpace(behind[1 : len(behind)-len(rest)])
	if end := bytes.LastIndexByte(object, '}'); end >= 0 {
		c.Origin = object[:end]
	}
	return rest, nil
}
