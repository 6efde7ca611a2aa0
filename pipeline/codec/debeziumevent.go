package codec

import (
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// data returns what stands before the row in the data of a CloudEvent.
func (p *debeziumPlan) data(e *debeziumEncoder, name string) []byte {
	if !e.Schemas {
		return []byte(`,"data":`)
	}
	row := p.rowFields()
	fields := []string{
		string(structure(row, true, name+".Value", `,"field":"before"`)),
		string(structure(row, true, name+".Value", `,"field":"after"`)),
	}
	return append(append([]byte(`,"data":{"schema":`), structure(fields, false, p.connector.schemas+".Data", "")...), `,"payload":`...)
}

// appendEvent appends a CloudEvent of version 1.0, in the order of Debezium's converter.
func (e *debeziumEncoder) appendEvent(dst []byte, p *debeziumPlan, c *connectors.Change) ([]byte, error) {
	block := e.appendSource(nil, p, c)
	dst = append(dst, `{"id":`...)
	dst = appendText(dst, e.eventID(p, block))
	dst = append(dst, `,"source":`...)
	dst = appendText(dst, "/debezium/"+p.connector.name+"/"+e.origin.Name)
	dst = append(dst, `,"specversion":"1.0","type":"`...)
	dst = append(append(dst, p.connector.schemas...), `.DataChangeEvent","time":"`...)
	at := c.Time
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	dst = at.UTC().Truncate(time.Millisecond).AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	dst = append(dst, `","datacontenttype":"application/json","iodebeziumop":"`...)
	dst = append(dst, c.Op.Code(), '"')
	dst, err := appendExtensions(dst, block)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"iodebeziumtxid":null,"iodebeziumtxtotalorder":null,"iodebeziumtxdatacollectionorder":null`...)
	if dst, err = e.appendImages(append(dst, p.dataHead...), p, c); err != nil {
		return dst, err
	}
	dst = append(dst, '}', '}')
	if e.Schemas {
		dst = append(dst, '}')
	}
	return dst, nil
}

// appendExtensions appends the source block as attributes. CloudEvents has no integers of 64 bits, so they become strings.
func appendExtensions(dst, block []byte) ([]byte, error) {
	_, err := members(block, func(name, b []byte) ([]byte, error) {
		value, rest, err := connectors.ScanJSON(b)
		if err != nil {
			return nil, err
		}
		dst = append(dst, `,"iodebezium`...)
		for _, letter := range name[1 : len(name)-1] {
			if letter != '_' {
				dst = append(dst, letter)
			}
		}
		dst = append(dst, '"', ':')
		if value[0] == '"' || value[0] == 'n' || string(name) == `"row"` {
			dst = append(dst, value...)
		} else {
			dst = append(append(append(dst, '"'), value...), '"')
		}
		return rest, nil
	})
	return dst, err
}

// eventID tells events apart by where they stand in the source.
func (e *debeziumEncoder) eventID(p *debeziumPlan, block []byte) string {
	fields := []string{"file", "pos", "row"}
	if p.connector.sequence {
		fields = []string{"lsn", "txId", "sequence"}
	}
	id := "name:" + e.origin.Name
	for _, name := range fields {
		found := "null"
		_, err := members(block, func(n, b []byte) ([]byte, error) {
			value, rest, err := connectors.ScanJSON(b)
			if err == nil && strings.Trim(string(n), `"`) == name {
				found = string(value)
				if value[0] == '"' {
					text, _, _ := connectors.Unquote(value, nil)
					found = string(text)
				}
			}
			return rest, err
		})
		if err != nil {
			return id
		}
		id += ";" + name + ":" + found
	}
	return id
}
