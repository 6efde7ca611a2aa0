package transform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Outbox turns the rows of an outbox table into events, as Debezium's event router does: the payload is the record, its
// aggregate's id the key, its aggregate's type the topic.
type Outbox struct {
	Tables  Tables            `yaml:"tables"`
	ID      string            `yaml:"id"`       // column of the event's own id; id
	Key     string            `yaml:"key"`      // column of the record's key; aggregateid
	RouteBy string            `yaml:"route_by"` // column that is {route} in topic; aggregatetype
	Payload string            `yaml:"payload"`  // column of the record's value; payload
	Time    string            `yaml:"time"`     // column of the event's time; none: when it was committed
	Topic   string            `yaml:"topic"`    // outbox.event.{route}
	Headers map[string]string `yaml:"headers"`  // columns that become headers, with their names; {type: eventType}
}

// defaults returns the step with what is left out filled in.
func (o *Outbox) defaults() Outbox {
	d := *o
	for field, value := range map[*string]string{&d.ID: "id", &d.Key: "aggregateid", &d.RouteBy: "aggregatetype", &d.Payload: "payload", &d.Topic: "outbox.event.{route}"} {
		if *field == "" {
			*field = value
		}
	}
	if d.Headers == nil {
		d.Headers = map[string]string{"type": "eventType"}
	}
	return d
}

// Validate checks the template and the headers.
func (o *Outbox) Validate() error {
	for column, name := range o.Headers {
		if name == "" || name == "id" {
			return fmt.Errorf("headers gives column %q no name, or the name id, which is the event's own", column)
		}
	}
	for _, c := range templateColumns("topic", o.Topic) {
		if c.name != "route" {
			return errors.New("topic has a placeholder that is none of {route}, {schema}, {table}, {database}")
		}
	}
	return checkTemplate("topic", o.Topic)
}

func (o *Outbox) scope() []string { return o.Tables }

func (o *Outbox) columns() []namedColumn {
	d := o.defaults()
	out := []namedColumn{{"id", d.ID}, {"key", d.Key}, {"route_by", d.RouteBy}, {"payload", d.Payload}}
	if d.Time != "" {
		out = append(out, namedColumn{"time", d.Time})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		out = append(out, namedColumn{"headers." + name, name})
	}
	return out
}

func (o *Outbox) bind(t *connectors.Table) (action, *connectors.Table, error) {
	d := o.defaults()
	from := make(map[string]int)
	for _, c := range o.columns() {
		i, err := find(t, c.name)
		if err != nil {
			return nil, nil, err
		}
		from[c.name] = i
	}
	columns := []int{from[d.Key], from[d.Payload], from[d.ID]}
	event := &connectors.Table{Dialect: connectors.EventDialect, Database: t.Database, Schema: t.Schema, Key: []int{2}}
	column := func(i int, name string) {
		old := t.Columns[i]
		event.Columns = append(event.Columns, connectors.Column{Name: name, Type: old.Type, Kind: old.Kind, Elem: old.Elem})
	}
	column(columns[0], d.Key)
	column(columns[1], d.Payload)
	column(columns[2], "id")
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		columns = append(columns, from[name])
		column(from[name], d.Headers[name])
	}
	if err := checkNames(event); err != nil {
		return nil, nil, err
	}
	f := &fan{columns: []int{from[d.RouteBy]}, targets: map[string]*connectors.Table{}}
	f.make = func(row []connectors.Value) *connectors.Table {
		out := *event
		out.Name = string(row[from[d.RouteBy]].AppendText(nil))
		out.Topic = fillRoute(d.Topic, t, out.Name)
		return &out
	}
	at := -1
	if d.Time != "" {
		at = from[d.Time]
	}
	return d.event(t, f, columns, at), nil, nil
}

func fillRoute(template string, t *connectors.Table, route string) string {
	return placeholder.ReplaceAllStringFunc(template, func(m string) string {
		if m == "{route}" {
			return route
		}
		return fill(m, t, nil)
	})
}

// event returns the action. A row that is deleted from the outbox was sent long ago; one that is changed is none of its
// business.
func (o *Outbox) event(t *connectors.Table, f *fan, columns []int, at int) action {
	needed := slices.Concat(columns, f.columns)
	return func(r *rows, c *connectors.Change) (bool, error) {
		if c.Op != connectors.Insert && c.Op != connectors.Snapshot {
			return false, nil
		}
		for _, i := range needed {
			if c.After[i].IsAbsent() {
				return false, lacking(t, i)
			}
		}
		if c.After[f.columns[0]].IsNull() || c.After[columns[0]].IsNull() {
			return false, fmt.Errorf("an event without %s or %s", o.RouteBy, o.Key)
		}
		if at >= 0 && !c.After[at].IsNull() {
			moment, err := eventTime(c.After[at])
			if err != nil {
				return false, fmt.Errorf("column %q: %w", o.Time, err)
			}
			c.Time = moment
		}
		c.Table = f.target(c.After)
		c.Op, c.Before, c.After = connectors.Insert, nil, r.pick(c.After, columns)
		return true, nil
	}
}

// eventTime reads a time, or an integer of milliseconds since 1970.
func eventTime(v connectors.Value) (time.Time, error) {
	if v.Kind() == connectors.Int {
		return time.UnixMilli(v.Int()).UTC(), nil
	}
	return parseMoment(string(v.AppendText(nil)))
}
