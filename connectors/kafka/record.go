package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// maxWarnings bounds the bad records of an opening that are named one by one.
const maxWarnings = 100

// record adds the changes of a record to the batch. One that is no row stops the source, or is left out.
func (s *source) record(r *kgo.Record) error {
	c, ok, err := s.change(r)
	if err != nil {
		where := fmt.Sprintf("topic %s, partition %d, offset %d", r.Topic, r.Partition, r.Offset)
		if s.config.BadRows == stopAtBad {
			return fmt.Errorf("read %s: %w; leave such records out with bad_rows: skip, or take them as they are with content: raw: %w", where, err, connectors.ErrFatal)
		}
		s.bad++
		if s.bad <= maxWarnings {
			s.env.Logger.Warn("record left out", "source", s.env.Name, "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
		}
		s.env.Report(connectors.Report{Reason: fmt.Sprintf("%d records were left out, the last at %s: %v", s.bad, where, err)})
		return nil
	}
	if !ok {
		return nil
	}
	start := len(s.arena)
	s.arena = append(s.arena, `"kafka_topic":`...)
	s.arena = connectors.AppendJSONString(s.arena, []byte(r.Topic))
	s.arena = strconv.AppendInt(append(s.arena, `,"kafka_partition":`...), int64(r.Partition), 10)
	s.arena = strconv.AppendInt(append(s.arena, `,"kafka_offset":`...), r.Offset, 10)
	c.Origin = s.arena[start:len(s.arena):len(s.arena)]
	start = len(s.arena)
	s.arena = fmt.Appendf(s.arena, "%s/%d/%d", r.Topic, r.Partition, r.Offset)
	c.Position = s.arena[start:len(s.arena):len(s.arena)]
	s.batch = append(s.batch, c)
	return nil
}

// change makes the change of a record; false: it says nothing new.
func (s *source) change(r *kgo.Record) (connectors.Change, bool, error) {
	name := document.SplitName(s.config.Table)
	if name.Schema == "" { // the dots of a topic separate no schema
		name = document.Name{Table: strings.ReplaceAll(s.config.Table, "{topic}", r.Topic)}
	} else {
		name.Schema, name.Table = strings.ReplaceAll(name.Schema, "{topic}", r.Topic), strings.ReplaceAll(name.Table, "{topic}", r.Topic)
	}
	now := r.Timestamp
	if now.UnixMilli() <= 0 {
		now = time.Now()
	}
	switch s.config.Content {
	case Rows:
		c, err := s.row(r, name, now)
		return c, true, err
	case Raw:
		c, err := s.raw(r, name, now)
		return c, true, err
	}
	known, seen := s.at.Names[r.Topic]
	switch {
	case r.Value == nil && (seen || s.config.Content == Changes):
		if seen {
			name = known
		}
		return s.tombstone(r, name, now)
	case s.config.Content == Auto && !document.IsChange(r.Value):
		c, err := s.raw(r, name, now)
		return c, true, err
	}
	keys, err := keyNames(r.Key)
	if err != nil {
		return connectors.Change{}, false, err
	}
	c, arena, err := s.tables.Change(name, r.Value, s.arena, keys, now)
	if s.arena = arena; err != nil {
		return c, false, err
	}
	if c.Table != nil {
		s.at.Names[r.Topic] = document.Name{Schema: c.Table.Schema, Table: c.Table.Name}
	}
	if c.Op == connectors.Truncate && len(s.at.Next[r.Topic]) > 1 {
		return c, false, errors.New("a truncate in a topic of several partitions, which have no order among each other")
	}
	if c.Op == connectors.Delete {
		s.last[r.Topic] = deleted{r.Partition, r.Offset, string(r.Key)}
	}
	return c, true, nil
}

// object returns a record's key where it is a JSON object, also beside its schema, as Kafka Connect writes it.
func object(key []byte) []byte {
	token, rest, err := connectors.ScanJSON(key)
	if err != nil || len(rest) > 0 || token[0] != '{' {
		return nil
	}
	if payload, err := document.Find(token, "payload"); err == nil && payload != nil && payload[0] == '{' {
		return payload
	}
	return token
}

func keyNames(key []byte) ([]string, error) {
	if token := object(key); token != nil {
		return document.Members(token)
	}
	return nil, nil
}

// tombstone makes a delete of a record without a value. The one that follows a delete says nothing new.
func (s *source) tombstone(r *kgo.Record, name document.Name, now time.Time) (connectors.Change, bool, error) {
	last, ok := s.last[r.Topic]
	if ok && last.partition == r.Partition && last.offset+1 == r.Offset && last.key == string(r.Key) {
		return connectors.Change{}, false, nil
	}
	key := object(r.Key)
	if key == nil {
		key = s.named(r.Key)
	}
	if key == nil {
		return connectors.Change{}, false, errors.New("a record without a value, whose key is no JSON object")
	}
	line := append(append([]byte(`{"op":"d","key":`), key...), '}')
	c, arena, err := s.tables.Change(name, line, s.arena, nil, now)
	s.arena = arena
	return c, err == nil, err
}

// named returns the object of a key that is one value, where the settings say which column it is of.
func (s *source) named(key []byte) []byte {
	if len(s.config.Key) != 1 || key == nil {
		return nil
	}
	token := key
	if !connectors.ValidJSON(key) || key[0] == '{' || key[0] == '[' {
		if !utf8.Valid(key) {
			return nil
		}
		token = connectors.AppendJSONString(nil, key)
	}
	line := append(connectors.AppendJSONString([]byte{'{'}, []byte(s.config.Key[0])), ':')
	return append(append(line, token...), '}')
}

// row makes a row of a JSON object. Members of the key stand in it too, where the value does not have them.
func (s *source) row(r *kgo.Record, name document.Name, now time.Time) (connectors.Change, error) {
	if r.Value == nil {
		c, _, err := s.tombstone(r, name, now)
		return c, err
	}
	value := r.Value
	key := object(r.Key)
	if key == nil {
		key = s.named(r.Key)
	}
	var names []string
	if key != nil {
		var err error
		if names, err = document.Members(key); err != nil {
			return connectors.Change{}, err
		}
		if inner, rest, err := connectors.ScanJSON(value); err == nil && len(rest) == 0 && inner[0] == '{' && len(names) > 0 {
			comma := []byte{','}
			if bytes.Equal(bytes.TrimSpace(inner[1:]), []byte{'}'}) {
				comma = nil
			}
			value = slices.Concat(bytes.TrimSpace(key)[:len(bytes.TrimSpace(key))-1], comma, inner[1:])
		}
	}
	line := append(append([]byte(`{"op":"c","after":`), value...), '}')
	if !connectors.ValidJSON(value) {
		return connectors.Change{}, errors.New("the value is no JSON")
	}
	c, arena, err := s.tables.Change(name, line, s.arena, names, now)
	if s.arena = arena; err == nil && s.old(r) {
		c.Op = connectors.Snapshot
	}
	return c, err
}

// old reports a record that was there at the first start.
func (s *source) old(r *kgo.Record) bool {
	until, ok := s.at.Until.get(r.Topic, r.Partition)
	return ok && r.Offset < until
}

// raw makes a row of the parts of a record. Its key is where it stands, unless the settings name another.
func (s *source) raw(r *kgo.Record, name document.Name, now time.Time) (connectors.Change, error) {
	list := []connectors.Column{
		{Name: "partition", Kind: connectors.Int}, {Name: "offset", Kind: connectors.Int}, {Name: "timestamp", Kind: connectors.TimestampTZ},
		{Name: "key", Kind: s.tables.Kind("key", connectors.Text)}, {Name: "value", Kind: s.tables.Kind("value", connectors.Text)}, {Name: "headers", Kind: connectors.Map},
	}
	c := connectors.Change{Op: connectors.Insert, Time: now}
	if s.old(r) {
		c.Op = connectors.Snapshot
	}
	at := now.UTC().AppendFormat(nil, "2006-01-02T15:04:05.999999999Z")
	values := []connectors.Value{connectors.IntValue(int64(r.Partition)), connectors.IntValue(r.Offset), connectors.DataValue(connectors.TimestampTZ, at)}
	for i, part := range [][]byte{r.Key, r.Value} {
		v, err := valueOf(list[3+i], part)
		if err != nil {
			return c, err
		}
		values = append(values, v)
	}
	values = append(values, headers(r))
	err := s.tables.Identify(name, []string{"partition", "offset"})
	if err != nil {
		return c, err
	}
	var image []connectors.Value
	if c.Table, image, err = s.tables.Fit(name, list, values, connectors.NullValue()); err != nil {
		return c, err
	}
	if err := document.CheckKey(c.Table, image); err != nil {
		return c, err
	}
	if r.Value == nil && slices.Equal(s.config.Key, []string{"key"}) {
		c.Op, c.Before = connectors.Delete, image
		return c, nil
	}
	c.After = image
	return c, nil
}

// valueOf makes the value of a record's key or value.
func valueOf(column connectors.Column, b []byte) (connectors.Value, error) {
	switch {
	case b == nil:
		return connectors.NullValue(), nil
	case column.Kind == connectors.Bytes:
		return connectors.DataValue(connectors.Bytes, b), nil
	case !utf8.Valid(b):
		return connectors.Value{}, fmt.Errorf("the %s is no text; take it as bytes: types: {%[1]s: bytes}", column.Name)
	}
	v, _, err := document.FromText(column.Kind, b, nil)
	if err != nil {
		return v, fmt.Errorf("column %s of type %v: %w", column.Name, column.Kind, err)
	}
	return v, nil
}

// headers are an object of texts. Of two with one name the last counts.
func headers(r *kgo.Record) connectors.Value {
	text := []byte{'{'}
	for i, h := range r.Headers {
		if slices.ContainsFunc(r.Headers[i+1:], func(o kgo.RecordHeader) bool { return o.Key == h.Key }) {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(connectors.AppendJSONString(text, []byte(h.Key)), ':')
		if h.Value == nil {
			text = append(text, "null"...)
		} else {
			text = connectors.AppendJSONString(text, h.Value)
		}
	}
	return connectors.DataValue(connectors.Map, append(text, '}'))
}
