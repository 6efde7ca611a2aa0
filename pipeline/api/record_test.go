package api

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/trunkline/trunkline/log"
)

func FuzzRecordComesBackAsItWas(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), true, true)
	f.Add([]byte{0xff, 0}, []byte("\u2028<\x00>"), true, true)
	f.Add([]byte{}, []byte{}, false, true)
	f.Fuzz(func(t *testing.T, key, value []byte, hasKey, hasValue bool) {
		rec := log.Record{Offset: 7, Timestamp: 1234}
		if hasKey {
			rec.Key = append([]byte{}, key...)
		}
		if hasValue {
			rec.Value = append([]byte{}, value...)
		}
		rec.Headers = []log.Header{{Key: "h", Value: rec.Value}}
		line, err := json.Marshal(NewRecord(log.TopicPartition{Topic: "t", Partition: 3}, rec))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parseRecord(line, 1)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got := parsed.record()
		if !same(got.Key, rec.Key) || !same(got.Value, rec.Value) || !same(got.Headers[0].Value, rec.Value) || got.Timestamp != rec.Timestamp {
			t.Errorf("%+v came back as %+v", rec, got)
		}
	})
}

// same tells nothing from an empty value.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"key":"a","value_base64":"AA==","partition":1,"headers":[{"key":"x","value":null}]}`))
	f.Add([]byte(`{"key":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRecord(line, 1)
		if err != nil {
			return
		}
		if rec := r.record(); len(rec.Headers) != len(r.Headers) {
			t.Errorf("%d of %d headers are left", len(rec.Headers), len(r.Headers))
		}
	})
}
