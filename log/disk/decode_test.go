package disk

import (
	"bytes"
	"maps"
	"reflect"
	"testing"

	"github.com/trunkline/trunkline/log"
)

var someDecision = decision{id: "shop", pid: 7, epoch: 3, mark: []byte("0/16E7F18"), touched: []touch{
	{topic: [16]byte{1, 2, 3}, partition: 0, first: 12}, {topic: [16]byte{1, 2, 3}, partition: 2, first: 1 << 40},
}}

func TestDecisionIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	unset, empty := someDecision, someDecision
	unset.mark, empty.mark = nil, []byte{}
	for _, want := range []decision{someDecision, unset, empty, {id: "x", epoch: -1, mark: []byte("m")}} {
		r := want.record()
		got, err := parseDecision(&r)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
	}
}

func TestGlobMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"shop.*", "shop.public.orders", true}, {"shop.*", "shop", false}, {"*", "anything", true}, {"*", "_trunkline.schemas", false},
		{"_trunkline.schemas", "_trunkline.schemas", true}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"*orders", "shop.orders", true},
		{"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXcYb", false}, {"", "", true}, {"**", "", true}, {"shop.public.orders", "shop.public.order", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func FuzzParseDecision(f *testing.F) {
	for _, h := range someDecision.record().Headers {
		f.Add([]byte("id"), []byte("mark"), h.Key, h.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte) {
		r := log.Record{Key: key, Value: value, Headers: []log.Header{{Key: producerHeader, Value: make([]byte, producerSize)}, {Key: name, Value: header}}}
		d, err := parseDecision(&r)
		if err != nil {
			return
		}
		again := d.record()
		if got, err := parseDecision(&again); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("read %+v, %v; want %+v", got, err, d)
		}
	})
}

func FuzzParseOffsetKey(f *testing.F) {
	f.Add(offsetKey("warehouse", log.TopicPartition{Topic: "shop.public.orders", Partition: 3}))
	f.Add([]byte(`["a"]`))
	f.Add([]byte(`[null,"b",1e3,4]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		group, tp, err := parseOffsetKey(b)
		if err != nil {
			return
		}
		g, p, err := parseOffsetKey(offsetKey(group, tp))
		if err != nil || p != tp || !bytes.Equal([]byte(g), []byte(group)) {
			t.Errorf("read %q %v, %v; want %q %v", g, p, err, group, tp)
		}
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(encodeSnapshot(map[int64]openTransaction{7: {epoch: 1, first: 12}, 9: {epoch: 0, first: 0}}, nil))
	f.Add(encodeSnapshot(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		open, sequences, err := decodeSnapshot(b)
		if err != nil {
			return
		}
		if got, _, err := decodeSnapshot(encodeSnapshot(open, sequences)); err != nil || !maps.Equal(got, open) {
			t.Errorf("read %v, %v; want %v", got, err, open)
		}
	})
}

func FuzzDecodeTxnIndex(f *testing.F) {
	f.Add(encodeTxnIndex([]abortedTransaction{{pid: 7, span: span{first: 3, end: 9}}, {pid: 8, span: span{first: 10, end: 10}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeTxnIndex(b)
		if err != nil {
			return
		}
		if got, err := decodeTxnIndex(encodeTxnIndex(list)); err != nil || len(got) != len(list) {
			t.Errorf("read %v, %v; want %v", got, err, list)
		}
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add("0\n2\norders 0 17\norders 1 0\n")
	f.Add("0\n0\n")
	f.Add("1\n0\n")
	f.Fuzz(func(t *testing.T, text string) {
		offsets, err := parseCheckpoint(text)
		if err == nil && len(offsets) > len(text) {
			t.Errorf("%d offsets in %d bytes", len(offsets), len(text))
		}
		parseCleaner(text)
	})
}
