package elasticsearch_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// TestSoftDeletesConformance runs alone, because it counts goroutines. The rows that are not marked are those of the source.
func TestSoftDeletesConformance(t *testing.T) {
	server := start(t)
	conformance.RunSink(t, conformance.SinkCase{Late: true, Wide: 30, Large: 300, Partial: true, New: func(t *testing.T) conformance.SinkSystem {
		s := newStore(t, server)
		s.config.Deletes = "soft"
		return conformance.SinkSystem{Open: s.open(), Rows: s.rows}
	}})
}

// documents returns the _source of each document of an index, by _id.
func (s *store) documents(table *connectors.Table) map[string]string {
	s.t.Helper()
	s.call("POST", s.index(table)+"/_refresh", "")
	_, text := s.call("GET", s.index(table)+"/_search", `{"size":10000,"query":{"match_all":{}}}`)
	var answer struct {
		Hits struct {
			Hits []struct {
				ID     string          `json:"_id"`
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for _, hit := range answer.Hits.Hits {
		out[hit.ID] = string(hit.Source)
	}
	return out
}

func (s *store) wantDocuments(want map[string]string) {
	s.t.Helper()
	got := s.documents(item)
	for id, source := range want {
		if !strings.Contains(got[id], source) {
			s.t.Errorf("document %s is %s, want %s", id, got[id], source)
		}
	}
	if len(got) != len(want) {
		s.t.Errorf("%d documents, want %d: %v", len(got), len(want), got)
	}
}

// A row that is deleted keeps its values and is marked, also when the same comes again; one that comes back is not.
func TestSoftDeletesKeepTheDocument(t *testing.T) {
	t.Parallel()
	s := newStore(t, start(t))
	s.config.Deletes = "soft"
	batches := func() []connectors.Batch {
		return []connectors.Batch{
			batch(0, insert(1, "a"), insert(2, "b"), insert(3, "c")), batch(3, remove(1), remove(2)),
			batch(5, insert(2, "again")), batch(6, insert(4, "d"), connectors.Change{Op: connectors.Truncate}, insert(5, "e")),
		}
	}
	write := func() {
		sink := s.sink()
		for _, b := range batches() {
			if err := sink.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		write()
		s.wantDocuments(map[string]string{
			"[1]": `"name":"a"`, "[2]": `"name":"again"`, "[3]": `"name":"c"`, "[4]": `"name":"d"`, "[5]": `"name":"e","price":"1.10","_deleted":false`})
		if rows := s.rows(t, item); len(rows) != 1 || rows[0]["name"] != "e" {
			t.Errorf("rows without a mark: %v, want that of 5", rows)
		}
	}
}

// A topic that is read again ends as before, also where a truncate stands in it.
func TestReplayOfATruncateKeepsWhatCameAfterIt(t *testing.T) {
	t.Parallel()
	for _, deletes := range []string{"apply", "soft"} {
		s := newStore(t, start(t))
		s.config.Deletes = deletes
		for range 3 {
			if err := s.sink().Write(t.Context(), batch(0, insert(1, "a"), insert(2, "b"), remove(2), connectors.Change{Op: connectors.Truncate}, insert(5, "e"))); err != nil {
				t.Fatal(err)
			}
			if rows := s.rows(t, item); len(rows) != 1 || rows[0]["name"] != "e" {
				t.Errorf("deletes: %s: rows %v, want that of 5", deletes, rows)
			}
		}
	}
}

// With append each change is a document of its own, and a replay adds none.
func TestAppendKeepsEveryChange(t *testing.T) {
	t.Parallel()
	for deletes, want := range map[string]map[string]string{
		"":     {"shop.item/0/0": `"name":"a"`, "shop.item/0/1": `"name":"b"`, "shop.item/0/4": `"_unchanged":["price"]`},
		"soft": {"shop.item/0/0": `"_deleted":false`, "shop.item/0/1": `"name":"b"`, "shop.item/0/2": `"_deleted":true`, "shop.item/0/4": `"_unchanged":["price"]`},
	} {
		s := newStore(t, start(t))
		s.config.Write, s.config.Deletes = "append", deletes
		sink := s.sink()
		if whole, ok := sink.(connectors.WholeRows); !ok || !whole.WholeRows() {
			t.Error("it does not ask for whole rows")
		}
		for range 2 {
			partial := row(1, "c")
			partial[2] = connectors.Value{}
			err := sink.Write(t.Context(), batch(0, insert(1, "a"), connectors.Change{Op: connectors.Update, Before: row(1, "a"), After: row(1, "b")}, remove(1),
				connectors.Change{Op: connectors.Truncate}, connectors.Change{Op: connectors.Update, After: partial}))
			if err != nil {
				t.Fatal(err)
			}
			s.wantDocuments(want)
		}
	}
}
