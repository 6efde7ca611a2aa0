package clickhouse_test

import (
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// TestSoftDeletesConformance runs alone, because it counts goroutines. The rows that are not marked are those of the source.
func TestSoftDeletesConformance(t *testing.T) {
	server := startOld(t)
	conformance.RunSink(t, conformance.SinkCase{Wide: 200, Plain: true, Partial: true, Late: true,
		New: func(t *testing.T) conformance.SinkSystem {
			s := server.store(t)
			s.config.Deletes = "soft"
			return conformance.SinkSystem{Open: s.open(), Rows: s.rows}
		},
		Shows: func(v connectors.Value) (string, bool) { return shows(server, v) },
	})
}

var thing = &connectors.Table{Schema: "shop", Name: "thing", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Type: "bigint", Kind: connectors.Int}, {Name: "name", Type: "text", Kind: connectors.Text}, {Name: "note", Type: "text", Kind: connectors.Text}}}

func put(id int64, name, note string) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: thing,
		After: []connectors.Value{connectors.IntValue(id), value(connectors.Text, name), value(connectors.Text, note)}}
}

func take(id int64) connectors.Change {
	return connectors.Change{Op: connectors.Delete, Table: thing, Before: []connectors.Value{connectors.IntValue(id), {}, {}}}
}

// A row that is deleted keeps its values and is seen with its mark, also when the same comes again; one that comes back is not marked.
func TestSoftDeletesKeepTheRow(t *testing.T) {
	t.Parallel()
	for _, server := range []*server{startOld(t), startNew(t)} {
		s := server.store(t)
		s.config.Deletes = "soft"
		for range 2 {
			sink := s.sink()
			s.must(sink.Write(t.Context(), batch(0, put(1, "a", "n"), put(2, "b", "n"), put(3, "c", "n"))))
			s.must(sink.Write(t.Context(), batch(3, take(1), take(2))))
			s.must(sink.Write(t.Context(), batch(5, put(2, "again", "n"))))
			s.must(sink.Write(t.Context(), batch(6, put(4, "d", "n"), connectors.Change{Op: connectors.Truncate, Table: thing}, put(5, "e", "n"))))
			got := s.text("SELECT arrayStringConcat(groupArray(concat(toString(id), '=', assumeNotNull(name), assumeNotNull(note), toString(_deleted))), ' ') FROM (SELECT * FROM SCHEMA.thing FINAL ORDER BY id)")
			if want := "1=an1 2=againn1 3=cn1 4=dn1 5=en0"; got != want {
				t.Errorf("%s: rows %s, want %s", server.name, got, want)
			}
		}
	}
}

// A table whose engine hides marked rows is refused, with what to do.
func TestSoftDeletesNeedAnEngineThatShowsThem(t *testing.T) {
	t.Parallel()
	s := startNew(t).store(t)
	s.must(s.sink().Write(t.Context(), batch(0, put(1, "a", "n"))))
	s.config.Deletes = "soft"
	if err := s.sink().Migrate(t.Context(), connectors.Migration{To: thing}); !isSchema(err) || !strings.Contains(err.Error(), "hides the rows") {
		t.Errorf("error %v", err)
	}
}

// With append each change is a row of its own, and a replay adds none.
func TestAppendKeepsEveryChange(t *testing.T) {
	t.Parallel()
	for _, server := range []*server{startOld(t), startNew(t)} {
		for deletes, want := range map[string]string{
			"": "0=a0 1=b0 4=c0[\"note\"]", "soft": "0=a0 1=b0 2=1[\"name\",\"note\"] 4=c0[\"note\"]",
		} {
			s := server.store(t)
			s.config.Write, s.config.Deletes = "append", deletes
			sink := s.sink()
			s.must(sink.Migrate(t.Context(), connectors.Migration{To: thing}))
			for range 2 {
				changed, partial := put(1, "b", "n"), put(1, "c", "n")
				changed.Op, changed.Before = connectors.Update, put(1, "a", "n").After
				partial.Op, partial.After[2] = connectors.Update, connectors.Value{}
				s.must(sink.Write(t.Context(), batch(0, put(1, "a", "n"), changed, take(1), connectors.Change{Op: connectors.Truncate, Table: thing}, partial)))
				got := s.text("SELECT arrayStringConcat(groupArray(concat(toString(_version), '=', ifNull(name, ''), toString(_deleted), ifNull(_unchanged, ''))), ' ') FROM (SELECT * FROM SCHEMA.thing FINAL ORDER BY _version)")
				if got != want {
					t.Errorf("%s, deletes %q: rows %s, want %s", server.name, deletes, got, want)
				}
			}
		}
	}
}
