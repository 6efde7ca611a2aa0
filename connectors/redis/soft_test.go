package redis_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/redis"
)

// TestSoftDeletesConformance runs alone, because it counts goroutines. The rows that are not marked are those of the source.
func TestSoftDeletesConformance(t *testing.T) {
	s := start(t)
	for _, format := range []redis.Format{redis.Hash, redis.JSON} {
		t.Run(string(format), func(t *testing.T) {
			conformance.RunSink(t, conformance.SinkCase{Late: true, Wide: 200, New: func(t *testing.T) conformance.SinkSystem {
				store := s.store(t, format)
				store.Deletes = "soft"
				return conformance.SinkSystem{Open: store.open(), Rows: store.rows, Busy: store.full}
			}})
		})
	}
}

// A row that is deleted keeps its values and is marked; one that comes back is not. A truncate marks the rows of its table
// alone, and leaves what is no row as it is.
func TestSoftDeletesKeepTheRow(t *testing.T) {
	t.Parallel()
	server := start(t)
	for format, want := range map[redis.Format][]string{
		redis.Hash: {"map[_deleted:true id:1 name:a]", "map[_deleted:true id:2 name:again]", "map[_deleted:true id:4 name:d]", "map[id:5 name:e]"},
		redis.JSON: {`{"id":"1","name":"a","note":null,"_deleted":true}`, `{"id":"2","name":"again","note":null,"_deleted":true}`,
			`{"id":"4","name":"d","note":null,"_deleted":true}`, `{"id":"5","name":"e","note":null}`},
	} {
		s := server.store(t, format)
		s.Deletes = "soft"
		s.must(s.db.RPush(t.Context(), "shop.item:list", "x").Err())
		sink := s.sink(t)
		s.must(sink.Write(t.Context(), batch(0, put("1", "a", nil), put("2", "b", nil))))
		s.must(sink.Write(t.Context(), batch(2, del("1"), del("2"))))
		read := func(id string) string {
			if format == redis.JSON {
				return s.db.Get(t.Context(), "shop.item:"+id).Val()
			}
			return fmt.Sprint(s.db.HGetAll(t.Context(), "shop.item:"+id).Val())
		}
		s.must(sink.Write(t.Context(), batch(4, put("2", "again", nil))))
		if text := read("2"); text == want[1] {
			t.Errorf("%s: a row that came back is %s", format, text)
		}
		s.must(sink.Write(t.Context(), batch(5, put("4", "d", nil), connectors.Change{Op: connectors.Truncate}, put("5", "e", nil))))
		for i, id := range []string{"1", "2", "4", "5"} {
			if got := read(id); got != want[i] {
				t.Errorf("%s: row %s is %s, want %s", format, id, got, want[i])
			}
		}
		if got := s.db.LRange(t.Context(), "shop.item:list", 0, -1).Val(); len(got) != 1 || got[0] != "x" {
			t.Errorf("%s: a list under the table's name is %q", format, got)
		}
	}
}

// write says what the format does, and no more.
func TestWriteSaysWhatTheFormatDoes(t *testing.T) {
	t.Parallel()
	got := map[redis.Format]string{}
	for _, format := range []redis.Format{redis.Hash, redis.JSON, redis.Stream} {
		c := redis.SinkConfig{Host: "x", Format: format, Deletes: "apply"}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		got[format] = c.Write
	}
	if want := map[redis.Format]string{redis.Hash: "upsert", redis.JSON: "upsert", redis.Stream: "append"}; !maps.Equal(got, want) {
		t.Errorf("write is %v, want %v", got, want)
	}
}
