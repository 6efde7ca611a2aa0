package pipeline

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// records reads a topic.
func (w *world) records(t *testing.T, name string) []log.Record {
	t.Helper()
	topic, err := w.journal.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var out []log.Record
	for i, p := range topic.Partitions {
		c, err := w.journal.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{{Topic: name, Partition: int32(i)}}})
		if err != nil {
			t.Fatal(err)
		}
		for next := p.LogStart; next < p.LastStable; {
			f, err := c.Poll(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Records {
				kept := log.Record{Key: append([]byte{}, r.Key...), Value: append([]byte{}, r.Value...)}
				for _, h := range r.Headers {
					kept.Headers = append(kept.Headers, log.Header{Key: h.Key, Value: append([]byte{}, h.Value...)})
				}
				out = append(out, kept)
			}
			next = f.Next
		}
		if err := c.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func header(r log.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// Rows, a new key, a truncate and a new version of the table come through each encoding as through JSON.
func TestSinksReadEveryEncoding(t *testing.T) {
	t.Parallel()
	w := start(t, `
sources:
  json: {type: memory, feed: shop}
  avro: {type: memory, feed: shop2, encoding: avro}
  proto: {type: memory, feed: shop3, encodings: {"proto.public.*": protobuf, "proto.*": avro}}
sinks:
  copy: {type: memory, topics: ["json.*"], batch: {wait: 1ms}}
  copy2: {type: memory, topics: ["avro.*"], batch: {wait: 1ms}}
  copy3: {type: memory, topics: ["proto.*"], batch: {wait: 1ms}}
`, Options{})
	wide := *orders
	wide.Columns = append(append([]connectors.Column{}, orders.Columns...), connectors.Column{Name: "total", Type: "numeric", Kind: connectors.Decimal})
	moved := row(2)
	moved.Op, moved.Before = connectors.Update, []connectors.Value{connectors.IntValue(2), {}}
	moved.After = []connectors.Value{connectors.IntValue(12), {}}
	late := row(7)
	late.Table, late.After = &wide, append(late.After, connectors.DataValue(connectors.Decimal, []byte("1.50")))
	gone := row(1)
	gone.Op, gone.Before, gone.After = connectors.Delete, gone.After, nil
	changes := []connectors.Change{row(9), {Op: connectors.Truncate, Table: orders}, row(1), row(2), row(3), moved, gone, late}
	for _, feed := range []string{"shop", "shop2", "shop3"} {
		w.space.Feed(feed).Append(changes...)
	}
	want := "map[12:map[id:12 note:note 2] 3:map[id:3 note:note 3] 7:map[id:7 note:note 7 total:1.50]]"
	for _, store := range []string{"copy", "copy2", "copy3"} {
		var got map[string]any
		eventually(t, func() string { return fmt.Sprintf("%s holds %v", store, got) }, func() bool {
			got = map[string]any{}
			for _, r := range w.space.Store(store).Rows("public.orders") {
				got[r["id"]] = r
			}
			return fmt.Sprint(got) == want
		})
	}
	for topic, encoding := range map[string]codec.Encoding{"avro.public.orders": codec.EncodingAvro, "proto.public.orders": codec.EncodingProtobuf} {
		for _, r := range w.records(t, topic) {
			if header(r, codec.HeaderEncoding) != string(encoding) || len(r.Value) > 0 && r.Value[0] != 0 {
				t.Errorf("%s: a record with headers %v and value % x", topic, r.Headers, r.Value)
			}
		}
	}
	recorder := httptest.NewRecorder()
	w.Registry().ServeHTTP(recorder, httptest.NewRequest("GET", "/subjects", nil))
	if got := strings.TrimSpace(recorder.Body.String()); got != `["avro.public.orders-key","avro.public.orders-value","proto.public.orders-key","proto.public.orders-value"]` {
		t.Errorf("subjects %s", got)
	}
}

func TestOutboxIsReadAsItIsAndAsRows(t *testing.T) {
	t.Parallel()
	outbox := &connectors.Table{Schema: "public", Name: "outbox", Key: []int{0}}
	for _, n := range []string{"id", "aggregatetype", "aggregateid", "type"} {
		outbox.Columns = append(outbox.Columns, connectors.Column{Name: n, Type: "text", Kind: connectors.Text})
	}
	outbox.Columns = append(outbox.Columns, connectors.Column{Name: "payload", Type: "jsonb", Kind: connectors.JSON})
	event := func(id, aggregate, key, payload string) connectors.Change {
		c := connectors.Change{Op: connectors.Insert, Table: outbox}
		for _, s := range []string{id, aggregate, key, "made"} {
			c.After = append(c.After, connectors.DataValue(connectors.Text, []byte(s)))
		}
		c.After = append(c.After, connectors.DataValue(connectors.JSON, []byte(payload)))
		return c
	}
	w := start(t, `
sources:
  shop: {type: memory, encoding: avro, transforms: [{outbox: {tables: [public.outbox]}}]}
sinks:
  copy: {type: memory, topics: ["outbox.*"], batch: {wait: 1ms}}
`, Options{})
	w.space.Feed("shop").Append(event("e1", "Order", "42", `{"total": 1.10}`), event("e2", "Order", "42", `{"total": 2}`), event("e3", "Customer", "7", `{}`))
	store := w.space.Store("copy")
	eventually(t, func() string { return fmt.Sprint(store.Rows("public.Order"), store.Rows("public.Customer")) }, func() bool {
		return store.Count("public.Order") == 2 && store.Count("public.Customer") == 1
	})
	if got := fmt.Sprint(store.Rows("public.Order")[0]); got != `map[aggregateid:42 eventType:made id:e1 payload:{"total": 1.10}]` {
		t.Errorf("a row is %s", got)
	}
	records := w.records(t, "outbox.event.Order")
	if len(records) != 2 || string(records[0].Key) != "42" || string(records[0].Value) != `{"total": 1.10}` || header(records[0], "id") != "e1" || header(records[0], "eventType") != "made" {
		t.Errorf("the records are %v", records)
	}
}

func TestASchemaThatTheRegistryRefusesStopsItsSource(t *testing.T) {
	t.Parallel()
	w := start(t, `
sources:
  shop: {type: memory, encoding: avro}
`, Options{})
	other := *orders
	other.Columns = append([]connectors.Column{}, orders.Columns...)
	other.Columns[1] = connectors.Column{Name: "note", Type: "bigint", Kind: connectors.Int}
	changed := row(2)
	changed.Table, changed.After = &other, []connectors.Value{connectors.IntValue(2), connectors.IntValue(5)}
	w.space.Feed("shop").Append(row(1), changed)
	m := w.member(t, "shop", in(Failed))
	if !strings.Contains(m.Reason, "route table public.orders: register schema of shop.public.orders-value: the schema is incompatible with an earlier one") {
		t.Errorf("it says %s", m.Reason)
	}
	recorder := httptest.NewRecorder()
	w.Registry().ServeHTTP(recorder, httptest.NewRequest("PUT", "/config/shop.public.orders-value", strings.NewReader(`{"compatibility": "NONE"}`)))
	if err := w.Resume(t.Context(), Target{Role: RoleSource, Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	w.member(t, "shop", func(m MemberStatus) bool { return m.Rows == 2 })
}
