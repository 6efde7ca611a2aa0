package api

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/trunkline/trunkline/log"
)

// Record is one record as a line of JSON, in both directions. Bytes that are UTF-8 stand as text; others, and only they,
// stand in the field of that name with base64. A key that is null and a value that is null (a tombstone) are neither.
type Record struct {
	Topic       string   `json:"topic,omitempty"`
	Partition   *int32   `json:"partition,omitempty"` // to produce: absent means by the key, or in turn
	Offset      *int64   `json:"offset,omitempty"`
	Timestamp   int64    `json:"timestamp,omitempty"` // milliseconds since 1970
	Key         *string  `json:"key"`
	KeyBase64   []byte   `json:"key_base64,omitempty"`
	Value       *string  `json:"value"`
	ValueBase64 []byte   `json:"value_base64,omitempty"`
	Headers     []Header `json:"headers,omitempty"`
	Error       string   `json:"error,omitempty"` // the stream ended early; the line is no record
}

// Header is one header of a record.
type Header struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

// KeyBytes returns the key, nil for none.
func (r Record) KeyBytes() []byte { return joinBytes(r.Key, r.KeyBase64) }

// ValueBytes returns the value, nil for a tombstone.
func (r Record) ValueBytes() []byte { return joinBytes(r.Value, r.ValueBase64) }

// NewRecord describes a record of the log.
func NewRecord(tp log.TopicPartition, rec log.Record) Record {
	out := Record{Topic: tp.Topic, Partition: &tp.Partition, Offset: &rec.Offset, Timestamp: rec.Timestamp}
	out.Key, out.KeyBase64 = splitBytes(rec.Key)
	out.Value, out.ValueBase64 = splitBytes(rec.Value)
	for _, h := range rec.Headers {
		header := Header{Key: h.Key}
		header.Value, header.ValueBase64 = splitBytes(h.Value)
		out.Headers = append(out.Headers, header)
	}
	return out
}

// record returns what is to be appended.
func (r Record) record() log.Record {
	out := log.Record{Key: r.KeyBytes(), Value: r.ValueBytes(), Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, log.Header{Key: h.Key, Value: joinBytes(h.Value, h.ValueBase64)})
	}
	return out
}

func splitBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	text := string(b)
	return &text, nil
}

func joinBytes(text *string, binary []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return binary
}

// parseRecord reads one line.
func parseRecord(line []byte, number int) (Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return r, badRequest("line %d: %v", number, err)
	}
	if r.Key != nil && r.KeyBase64 != nil || r.Value != nil && r.ValueBase64 != nil {
		return r, badRequest("line %d: both text and base64", number)
	}
	return r, nil
}

// size is about what the record takes in memory.
func (r Record) size() int {
	return len(r.KeyBytes()) + len(r.ValueBytes()) + 64
}

// ProduceRecord describes a record to append; a nil key is none, a nil partition means by the key or in turn.
func ProduceRecord(key, value []byte, partition *int32) Record {
	out := Record{Partition: partition}
	out.Key, out.KeyBase64 = splitBytes(key)
	if value == nil {
		value = []byte{} // an empty line is an empty value; only its absence is a tombstone
	}
	out.Value, out.ValueBase64 = splitBytes(value)
	return out
}
