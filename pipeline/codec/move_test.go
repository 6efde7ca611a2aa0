package codec

import (
	"bytes"
	"testing"

	"github.com/trunkline/trunkline/log"
)

func TestMoveComesBack(t *testing.T) {
	t.Parallel()
	for _, m := range []Move{{ID: 7, Partition: 3}, {ID: 7, Partition: 0, Twin: true}, {ID: 1 << 60, Partition: 2, Key: []byte(`{"id":"a b"}`)}} {
		got, ok := MoveOf(&log.Record{Headers: []log.Header{{Key: HeaderMove, Value: AppendMove(nil, m)}}})
		if !ok || got.ID != m.ID || got.Partition != m.Partition || got.Twin != m.Twin || !bytes.Equal(got.Key, m.Key) {
			t.Errorf("%+v came back as %+v", m, got)
		}
	}
}

func FuzzMove(f *testing.F) {
	f.Add([]byte("7 3"))
	f.Add([]byte("7 3 ="))
	f.Add([]byte(`7 3 {"id":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, ok := parseMove(value)
		if !ok {
			return
		}
		again, ok := parseMove(AppendMove(nil, m))
		if !ok || again.ID != m.ID || again.Partition != m.Partition || again.Twin != m.Twin || !bytes.Equal(again.Key, m.Key) {
			t.Errorf("%q: %+v became %+v", value, m, again)
		}
	})
}
