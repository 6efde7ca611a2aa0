package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

var customers = &connectors.Table{Schema: "public", Name: "customers", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Type: "bigint", Kind: connectors.Int, NotNull: true}, {Name: "name", Type: "text", Kind: connectors.Text},
}}

func customer(op connectors.Op, id int, name string) connectors.Change {
	row := []connectors.Value{connectors.IntValue(int64(id)), connectors.DataValue(connectors.Text, []byte(name))}
	c := connectors.Change{Op: op, Table: customers, Time: time.Now(), After: row}
	if op == connectors.Delete {
		c.Before, c.After = row, nil
	}
	return c
}

func TestWhatASourceMasksNeverEntersTheLog(t *testing.T) {
	t.Parallel()
	w := start(t, `
sources:
  shop:
    type: memory
    transforms:
      - mask: {tables: [public.orders], columns: [note], with: redact}
      - filter: {tables: [public.orders], when: id < 3}
      - route: {tables: [public.orders], topic: shop.safe}
sinks:
  copy: {type: memory, topics: ["shop.*"], batch: {wait: 1ms}}
`, Options{})
	w.space.Feed("shop").Append(row(1), row(2), row(3))
	eventually(t, func() string { return fmt.Sprint(w.space.Store("copy").Rows("public.orders")) }, func() bool {
		return w.space.Store("copy").Count("public.orders") == 2
	})
	topics, err := w.journal.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if !log.IsInternal(topic.Name) && topic.Name != "shop.safe" {
			t.Errorf("there is a topic %s", topic.Name)
		}
	}
	for _, r := range w.space.Store("copy").Rows("public.orders") {
		if r["note"] != "***" {
			t.Errorf("a row arrived with %v", r)
		}
	}
	if owner := w.Owner("shop.safe"); owner != "shop" {
		t.Errorf("the topic is owned by %q: clients could write to it", owner)
	}
}

func TestASourceStopsWhenAStepNamesAColumnThatItsTableLacks(t *testing.T) {
	t.Parallel()
	w := start(t, `
sources:
  shop: {type: memory, transforms: [{mask: {tables: [public.orders], columns: [notes], with: redact}}]}
`, Options{})
	w.space.Feed("shop").Append(row(1))
	m := w.member(t, "shop", in(Failed))
	want := `transform what source "shop" read: transforms[0].mask: table public.orders has no column "notes"; did you mean "note"?: put it right, then trunkline resume shop`
	if m.Reason != want {
		t.Errorf("it says %s", m.Reason)
	}
	topics, err := w.journal.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if !log.IsInternal(topic.Name) {
			t.Errorf("there is a topic %s", topic.Name)
		}
	}
}

func TestLookupFollowsTheTopicOfItsReference(t *testing.T) {
	t.Parallel()
	w := start(t, `
sources:
  shop: {type: memory, feed: shop}
  crm: {type: memory, feed: crm}
sinks:
  copy:
    type: memory
    topics: ["shop.*"]
    batch: {wait: 1ms}
    transforms:
      - lookup: {tables: [public.orders], topic: crm.public.customers, on: {id: id}, columns: {customer: name}}
`, Options{})
	store, crm, shop := w.space.Store("copy"), w.space.Feed("crm"), w.space.Feed("shop")
	shop.Append(row(1)) // has to wait for the reference
	w.member(t, "copy", in(Retrying))
	crm.Append(customer(connectors.Insert, 1, "Ada"), customer(connectors.Insert, 2, "Bob"), customer(connectors.Insert, 3, "Cyd"))
	holds := func(id int, want string) {
		t.Helper()
		var got string
		eventually(t, func() string { return fmt.Sprintf("row %d has the customer %s", id, got) }, func() bool {
			for _, r := range store.Rows("public.orders") {
				if r["id"] == fmt.Sprint(id) {
					got = r["customer"]
					return got == want
				}
			}
			return false
		})
	}
	holds(1, "Ada")
	crm.Append(customer(connectors.Update, 2, "Bo"), customer(connectors.Delete, 3, "Cyd"))
	w.member(t, "crm", func(m MemberStatus) bool { return m.Rows == 5 })
	shop.Append(row(2), row(3))
	holds(2, "Bo")
	holds(3, "")
}
