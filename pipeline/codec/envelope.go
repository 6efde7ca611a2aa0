package codec

import (
	"fmt"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Origin is what the source block of every record of one source says alike.
type Origin struct {
	Version   string // of Trunkline
	Connector string // its type
	Name      string // of the source
}

// maxPlans bounds how many versions of tables an encoder or decoder keeps fragments for; beyond it, it starts afresh.
const maxPlans = 4096

// JSON writes Debezium's envelope, version 2, without its schema part.
//
//	{"before":{…}|null,"after":{…}|null,
//	 "source":{"version":…,"connector":…,"name":…,"ts_ms":…,"snapshot":"true"|"false","db":…,"schema":…,"table":…<,Origin>},
//	 "transaction":null,"op":"c","ts_ms":…,"ts_us":…,"ts_ns":…<,"message":{…}><,"unchanged":[…]>}
//
// A column that is absent from an image is left out of it; unchanged names those that are absent from after.
type JSON struct {
	origin Origin
	plans  map[*connectors.Table]*plan
	last   *plan

	now      time.Time
	nowText  []byte // ,"ts_ms":…,"ts_us":…,"ts_ns":…
	time     time.Time
	timeText []byte // the digits of source.ts_ms
}

// plan holds what is the same in every record of one version of a table.
type plan struct {
	table    *connectors.Table
	names    [][]byte // ,"name":
	keyNames [][]byte // {"name": for the first, ,"name": for the others
	source   []byte   // ,"source":{…,"ts_ms":
	place    []byte   // ,"db":…,"schema":…,"table":…
}

// NewJSON returns an encoder for the records of one source.
func NewJSON(o Origin) *JSON {
	return &JSON{origin: o, plans: map[*connectors.Table]*plan{}}
}

// Takes is true: everything that happened is in the log.
func (e *JSON) Takes(connectors.Op) bool { return true }

// Tombstone follows the topic: it is compaction that needs one.
func (e *JSON) Tombstone(compacted bool) bool { return compacted }

// Name is Lossless.
func (e *JSON) Name() Envelope { return Lossless }

func (e *JSON) plan(t *connectors.Table) *plan {
	if e.last != nil && e.last.table == t {
		return e.last
	}
	p := e.plans[t]
	if p == nil {
		if len(e.plans) >= maxPlans {
			clear(e.plans)
		}
		p = newPlan(t, e.origin)
		e.plans[t] = p
	}
	e.last = p
	return p
}

func newPlan(t *connectors.Table, o Origin) *plan {
	p := &plan{table: t}
	for _, c := range t.Columns {
		p.names = append(p.names, appendMember([]byte{','}, c.Name))
	}
	for i, column := range t.Key {
		start := byte(',')
		if i == 0 {
			start = '{'
		}
		p.keyNames = append(p.keyNames, appendMember([]byte{start}, t.Columns[column].Name))
	}
	p.source = appendText(append(p.source, `,"source":{"version":`...), o.Version)
	p.source = appendText(append(p.source, `,"connector":`...), o.Connector)
	p.source = appendText(append(p.source, `,"name":`...), o.Name)
	p.source = append(p.source, `,"ts_ms":`...)
	p.place = appendText(append(p.place, `,"db":`...), t.Database)
	p.place = appendText(append(p.place, `,"schema":`...), t.Schema)
	p.place = appendText(append(p.place, `,"table":`...), t.Name)
	return p
}

func appendText(dst []byte, s string) []byte { return connectors.AppendJSONString(dst, []byte(s)) }

func appendMember(dst []byte, name string) []byte { return append(appendText(dst, name), ':') }

// AppendKey appends a JSON object of the key columns in key order.
func (e *JSON) AppendKey(dst []byte, t *connectors.Table, row, other []connectors.Value) ([]byte, error) {
	if len(t.Key) == 0 {
		return dst, nil
	}
	p := e.plan(t)
	for i, column := range t.Key {
		v := valueAt(row, column)
		if v.IsAbsent() {
			v = valueAt(other, column)
		}
		if err := checkKind(t, column, v); err != nil {
			return dst, err
		}
		if v.IsAbsent() {
			return dst, fmt.Errorf("encode key of %s: the change does not carry key column %q", t.FullName(), t.Columns[column].Name)
		}
		dst = append(dst, p.keyNames[i]...)
		dst = connectors.AppendJSON(dst, v)
	}
	return append(dst, '}'), nil
}

func valueAt(row []connectors.Value, column int) connectors.Value {
	if column >= len(row) {
		return connectors.Value{}
	}
	return row[column]
}

// AppendValue appends the envelope of a change.
func (e *JSON) AppendValue(dst []byte, c *connectors.Change, now time.Time) ([]byte, error) {
	t := c.Table
	if t == nil {
		return dst, fmt.Errorf("encode change: no table")
	}
	p := e.plan(t)
	before, after := c.Before, c.After
	if c.Op == connectors.Message {
		before, after = nil, nil
	}
	var err error
	dst = append(dst, `{"before":`...)
	if dst, err = p.appendRow(dst, before); err != nil {
		return dst, err
	}
	dst = append(dst, `,"after":`...)
	if dst, err = p.appendRow(dst, after); err != nil {
		return dst, err
	}
	dst = append(dst, p.source...)
	dst = e.appendTime(dst, c.Time)
	if c.Op == connectors.Snapshot {
		dst = append(dst, `,"snapshot":"true"`...)
	} else {
		dst = append(dst, `,"snapshot":"false"`...)
	}
	dst = append(dst, p.place...)
	if len(c.Origin) > 0 {
		dst = append(append(dst, ','), c.Origin...)
	}
	dst = append(dst, `},"transaction":null,"op":"`...)
	dst = append(dst, c.Op.Code(), '"')
	dst = e.appendNow(dst, now)
	if c.Op == connectors.Message {
		if dst, err = p.appendRow(append(dst, `,"message":`...), c.After); err != nil {
			return dst, err
		}
	}
	return append(p.appendUnchanged(dst, after), '}'), nil
}

// appendRow appends an image as an object. Absent columns are left out.
func (p *plan) appendRow(dst []byte, row []connectors.Value) ([]byte, error) {
	if row == nil {
		return append(dst, "null"...), nil
	}
	if len(row) != len(p.names) {
		return dst, fmt.Errorf("encode row of %s: %d values for %d columns", p.table.FullName(), len(row), len(p.names))
	}
	start := len(dst)
	for i, v := range row {
		if v.IsAbsent() {
			continue
		}
		if v.Kind() != p.table.Columns[i].Kind {
			if err := checkKind(p.table, i, v); err != nil {
				return dst, err
			}
		}
		dst = append(dst, p.names[i]...)
		dst = connectors.AppendJSON(dst, v)
	}
	if len(dst) == start {
		return append(dst, "{}"...), nil
	}
	dst[start] = '{'
	return append(dst, '}'), nil
}

// appendUnchanged names the columns that are absent from an image.
func (p *plan) appendUnchanged(dst []byte, row []connectors.Value) []byte {
	found := false
	for i := range row {
		if !row[i].IsAbsent() {
			continue
		}
		if !found {
			found = true
			dst = append(dst, `,"unchanged":[`...)
		} else {
			dst = append(dst, ',')
		}
		name := p.names[i]
		dst = append(dst, name[1:len(name)-1]...)
	}
	if found {
		dst = append(dst, ']')
	}
	return dst
}

// checkKind refuses a value that would come back as something else: ParseJSON knows the column's kind only.
func checkKind(t *connectors.Table, column int, v connectors.Value) error {
	want, got := t.Columns[column].Kind, v.Kind()
	switch {
	case got == want, got == connectors.Null, got == connectors.Absent:
		return nil
	case want != connectors.Bytes && got <= connectors.Text:
		return nil
	}
	return fmt.Errorf("encode column %q of %s: a value of kind %v in a column of kind %v", t.Columns[column].Name, t.FullName(), got, want)
}

// appendTime appends milliseconds since 1970. The changes of one transaction share their text.
func (e *JSON) appendTime(dst []byte, t time.Time) []byte {
	if len(e.timeText) == 0 || t != e.time {
		e.time = t
		ms := int64(0)
		if !t.IsZero() {
			ms = t.UnixMilli()
		}
		e.timeText = strconv.AppendInt(e.timeText[:0], ms, 10)
	}
	return append(dst, e.timeText...)
}

func (e *JSON) appendNow(dst []byte, now time.Time) []byte {
	if len(e.nowText) == 0 || now != e.now {
		e.now = now
		b := strconv.AppendInt(append(e.nowText[:0], `,"ts_ms":`...), now.UnixMilli(), 10)
		b = strconv.AppendInt(append(b, `,"ts_us":`...), now.UnixMicro(), 10)
		e.nowText = strconv.AppendInt(append(b, `,"ts_ns":`...), now.UnixNano(), 10)
	}
	return append(dst, e.nowText...)
}
