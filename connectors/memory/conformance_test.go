package memory_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/memory"
)

var item = &connectors.Table{
	Schema: "shop", Name: "item", Key: []int{0},
	Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}, {Name: "v", Kind: connectors.Text}},
}

func row(id int, v string) []connectors.Value {
	return []connectors.Value{connectors.IntValue(int64(id)), connectors.DataValue(connectors.Text, []byte(v))}
}

func TestSourceConformance(t *testing.T) {
	conformance.RunSource(t, conformance.SourceCase{New: func(*testing.T) conformance.SourceSystem {
		feed := memory.NewFeed()
		started := false
		return conformance.SourceSystem{
			Open: feed.Open, Table: "shop.item",
			Insert: func(_ *testing.T, ids ...int) {
				op := connectors.Insert
				if !started {
					op, started = connectors.Snapshot, true
				}
				var changes []connectors.Change
				for _, id := range ids {
					changes = append(changes, connectors.Change{Op: op, Table: item, After: row(id, "v"+strconv.Itoa(id)), Time: time.Now()})
				}
				feed.Append(changes...)
			},
			Update: func(_ *testing.T, id int, v string) {
				feed.Append(connectors.Change{Op: connectors.Update, Table: item, After: row(id, v), Time: time.Now()})
			},
			Delete: func(_ *testing.T, id int) {
				before := []connectors.Value{connectors.IntValue(int64(id)), {}}
				feed.Append(connectors.Change{Op: connectors.Delete, Table: item, Before: before, Time: time.Now()})
			},
		}
	}})
}

func TestSinkConformance(t *testing.T) {
	for _, name := range []string{"transactional", "plain"} {
		t.Run(name, func(t *testing.T) {
			conformance.RunSink(t, conformance.SinkCase{New: func(*testing.T) conformance.SinkSystem {
				store := memory.NewStore()
				open := store.Open
				if name == "plain" {
					open = store.OpenPlain
				}
				return conformance.SinkSystem{
					Open: open,
					Rows: func(_ *testing.T, table *connectors.Table) []conformance.Row {
						var out []conformance.Row
						for _, r := range store.Rows(table.FullName()) {
							out = append(out, conformance.Row(r))
						}
						return out
					},
					Refuse: func(_ *testing.T, table *connectors.Table) {
						store.Refuse(func(c *connectors.Change) error {
							if c.After != nil && string(c.After[1].Data()) == "bad" {
								return errors.New("bad")
							}
							return nil
						})
					},
				}
			}})
		})
	}
}
