package codec

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// debeziumSource is the source block of one of Debezium's connectors.
type debeziumSource struct {
	name     string   // in the block
	schemas  string   // what its schemas are called
	inSchema bool     // tables stand in schemas
	own      []string // schemas of the connector's own fields, in order
	rest     string   // members that our sources do not fill
	sequence bool     // PostgreSQL's
}

func fieldSchema(kind string, optional bool, name string) string {
	return `{"type":"` + kind + `","optional":` + strconv.FormatBool(optional) + `,"field":"` + name + `"}`
}

var debeziumSources = map[string]*debeziumSource{
	"postgres": {
		name: "postgresql", schemas: "io.debezium.connector.postgresql", inSchema: true, sequence: true,
		own: []string{
			fieldSchema("int64", true, "txId"), fieldSchema("int64", true, "lsn"), fieldSchema("int64", true, "xmin"),
			fieldSchema("string", true, "origin"), fieldSchema("int64", true, "origin_lsn"),
		},
		rest: `,"origin":null,"origin_lsn":null`,
	},
	"mysql": {
		name: "mysql", schemas: "io.debezium.connector.mysql",
		own: []string{
			fieldSchema("int64", false, "server_id"), fieldSchema("string", true, "gtid"), fieldSchema("string", false, "file"), fieldSchema("int64", false, "pos"),
			fieldSchema("int32", false, "row"), fieldSchema("int64", true, "thread"), fieldSchema("string", true, "query"),
		},
		rest: `,"query":null`,
	},
}

// sourceOf returns the source block for a dialect. Where Debezium has no connector of that name, the block has no fields
// of its own.
func sourceOf(dialect, connector string) *debeziumSource {
	if s := debeziumSources[dialect]; s != nil {
		return s
	}
	return &debeziumSource{name: connector, schemas: "io.debezium.connector." + connector, inSchema: true}
}

const snapshotSchema = `{"type":"string","optional":true,"name":"io.debezium.data.Enum","version":1,"parameters":` +
	`{"allowed":"true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},"default":"false","field":"snapshot"}`

// fields returns the schemas of the block's fields.
func (s *debeziumSource) fields() []string {
	out := []string{
		fieldSchema("string", false, "version"), fieldSchema("string", false, "connector"), fieldSchema("string", false, "name"),
		fieldSchema("int64", false, "ts_ms"), snapshotSchema, fieldSchema("string", false, "db"), fieldSchema("string", true, "sequence"),
		fieldSchema("int64", true, "ts_us"), fieldSchema("int64", true, "ts_ns"),
	}
	if s.inSchema {
		out = append(out, fieldSchema("string", false, "schema"), fieldSchema("string", false, "table"))
	} else {
		out = append(out, fieldSchema("string", true, "table"))
	}
	return append(out, s.own...)
}

// place returns the members that say where the table is.
func (s *debeziumSource) place(t *connectors.Table) []byte {
	var out []byte
	if s.inSchema {
		out = append(appendText(append(out, `,"schema":`...), t.Schema), `,"table":`...)
	} else {
		out = append(out, `,"table":`...)
	}
	return appendText(out, t.Name)
}

// database is what Debezium calls db: MySQL's schemas are databases.
func (s *debeziumSource) database(t *connectors.Table) string {
	if s.inSchema {
		return t.Database
	}
	return t.Schema
}

// appendSource appends the block.
func (e *debeziumEncoder) appendSource(dst []byte, p *debeziumPlan, c *connectors.Change) []byte {
	dst = append(append(dst, p.source...), e.numbers.ms...)
	if c.Op == connectors.Snapshot {
		dst = append(dst, `,"snapshot":"true"`...)
	} else {
		dst = append(dst, `,"snapshot":"false"`...)
	}
	dst = appendText(append(dst, `,"db":`...), p.connector.database(c.Table))
	dst = append(dst, `,"sequence":`...)
	dst = e.appendSequence(dst, p, c)
	dst = append(append(dst, `,"ts_us":`...), e.numbers.us...)
	dst = append(append(dst, `,"ts_ns":`...), e.numbers.ns...)
	dst = append(dst, p.place...)
	if len(c.Origin) > 0 {
		dst = append(append(append(dst, ','), c.Origin...), p.connector.rest...)
	}
	return append(dst, '}')
}

// appendSequence appends PostgreSQL's: the position of the transaction's first change, and that of this one.
func (e *debeziumEncoder) appendSequence(dst []byte, p *debeziumPlan, c *connectors.Change) []byte {
	if !p.connector.sequence {
		return append(dst, "null"...)
	}
	transaction, lsn := member(c.Origin, `"txId":`), member(c.Origin, `"lsn":`)
	if len(lsn) == 0 || lsn[0] == 'n' {
		return append(dst, "null"...)
	}
	dst = append(dst, `"[`...)
	if c.Op == connectors.Snapshot {
		dst = append(dst, "null"...)
	} else {
		if string(transaction) != e.sequence.transaction {
			e.sequence = sequence{string(transaction), string(lsn)}
		}
		dst = append(append(append(dst, `\"`...), e.sequence.first...), `\"`...)
	}
	return append(append(append(dst, `,\"`...), lsn...), `\"]"`...)
}

// member finds the value of a member, a number or null, in the origin of a change.
func member(origin []byte, name string) []byte {
	i := bytes.Index(origin, []byte(name))
	if i < 0 {
		return nil
	}
	rest := origin[i+len(name):]
	if end := bytes.IndexByte(rest, ','); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// stamps holds the texts of two times. The changes of one transaction share them.
type stamps struct {
	time, now  time.Time
	ms, us, ns []byte
	nowText    []byte
}

func (s *stamps) set(t, now time.Time) {
	if s.ms == nil || t != s.time {
		s.time = t
		if t.IsZero() {
			t = time.Unix(0, 0)
		}
		s.ms = strconv.AppendInt(s.ms[:0], t.UnixMilli(), 10)
		s.us = strconv.AppendInt(s.us[:0], t.UnixMicro(), 10)
		s.ns = strconv.AppendInt(s.ns[:0], t.UnixNano(), 10)
	}
	if s.nowText == nil || now != s.now {
		s.now = now
		b := strconv.AppendInt(append(s.nowText[:0], `,"ts_ms":`...), now.UnixMilli(), 10)
		b = strconv.AppendInt(append(b, `,"ts_us":`...), now.UnixMicro(), 10)
		s.nowText = strconv.AppendInt(append(b, `,"ts_ns":`...), now.UnixNano(), 10)
	}
}

func (s *stamps) appendNow(dst []byte) []byte { return append(dst, s.nowText...) }

// addedFields are what add.fields may name, and the types of their schemas.
var addedFields = map[string]string{
	"op": `"type":"string"`, "table": `"type":"string"`, "schema": `"type":"string"`, "db": `"type":"string"`, "name": `"type":"string"`,
	"connector": `"type":"string"`, "version": `"type":"string"`, "snapshot": `"type":"string"`, "sequence": `"type":"string"`, "file": `"type":"string"`,
	"gtid": `"type":"string"`, "ts_ms": `"type":"int64"`, "ts_us": `"type":"int64"`, "ts_ns": `"type":"int64"`, "lsn": `"type":"int64"`,
	"txId": `"type":"int64"`, "xmin": `"type":"int64"`, "pos": `"type":"int64"`, "server_id": `"type":"int64"`, "row": `"type":"int32"`, "thread": `"type":"int64"`,
}

func addedName(field string) string { return "__" + strings.ReplaceAll(field, ".", "_") }

// appendFlat appends the row with what tells its change.
func (e *debeziumEncoder) appendFlat(dst []byte, p *debeziumPlan, c *connectors.Change) ([]byte, error) {
	row, deleted := c.After, "false"
	if c.Op == connectors.Delete {
		row, deleted = c.Before, "true"
	}
	dst, err := p.appendRow(dst, row, c.Op != connectors.Delete)
	if err != nil {
		return dst, err
	}
	dst = dst[:len(dst)-1]
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(append(append(dst, `"__deleted":"`...), deleted...), '"')
	for _, field := range e.AddFields {
		dst = append(appendText(append(dst, ','), addedName(field)), ':')
		dst = e.appendAdded(dst, field, p, c)
	}
	return append(dst, '}'), nil
}

// appendAdded appends the value of one of add.fields.
func (e *debeziumEncoder) appendAdded(dst []byte, field string, p *debeziumPlan, c *connectors.Change) []byte {
	switch field {
	case "op":
		return append(dst, '"', c.Op.Code(), '"')
	case "ts_ms", "ts_us", "ts_ns":
		return append(dst, member(e.numbers.nowText[1:], `"`+field+`":`)...)
	}
	name := strings.TrimPrefix(field, "source.")
	block := e.appendSource(nil, p, c)
	at := bytes.Index(block, []byte(`"`+name+`":`))
	if at < 0 {
		return append(dst, "null"...)
	}
	value, _, err := connectors.ScanJSON(block[at+len(name)+3:])
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, value...)
}
