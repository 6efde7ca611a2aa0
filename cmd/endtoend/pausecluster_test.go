//go:build unix

package endtoend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/pipeline"
)

// tableState is the state of one table of a source or sink, empty if it says nothing of it.
func tableState(l *line, name, table string) pipeline.State {
	for _, t := range statusOf(l, name).Tables {
		if t.Name == table {
			return t.State
		}
	}
	return ""
}

// versions returns for each key the values of n that the records of a topic carry, in their order.
func versions(l *line, topic string) map[string][]int {
	l.t.Helper()
	code, out := l.run("consume", topic, "--from", "earliest", "--format", "json")
	if code != 0 {
		l.t.Fatalf("consume ended with %d: %s", code, out)
	}
	list := map[string][]int{}
	for text := range strings.Lines(out) {
		var r struct{ Key, Value json.RawMessage }
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			l.t.Fatalf("consume printed %q: %v", text, err)
		}
		var envelope struct{ After *struct{ N int } }
		if json.Unmarshal([]byte(unquoted(r.Value)), &envelope) == nil && envelope.After != nil {
			key := unquoted(r.Key)
			list[key] = append(list[key], envelope.After.N)
		}
	}
	return list
}

// What is paused in one of two processes that share a cluster is paused in both, stays so through drain, kill -9 and
// take-over, and comes after the resume in order, each change once.
func TestPausesOnACluster(t *testing.T) {
	t.Parallel()
	_, log := onCluster(t, 1)
	source, target := newDatabase(t), newDatabase(t)
	const keys = 200
	for _, table := range []string{"item", "other"} {
		source.exec("CREATE TABLE "+table+" (id int PRIMARY KEY, n int NOT NULL)", fmt.Sprintf("INSERT INTO %s SELECT i, 0 FROM generate_series(1, %d) i", table, keys))
	}
	sources, sinks := postgresSource(source, "shop", "tables: [public.item, public.other]"), postgresSink(target, "replica")
	first, second := newLineOn(t, log, sources, sinks), newLineOn(t, log, sources, sinks)
	say := func(l *line, args ...string) {
		t.Helper()
		if code, out := l.run(append(args, "--addr", l.http)...); code != 0 {
			t.Fatalf("%v ended with %d: %s", args, code, out)
		}
	}
	// turn is how often each row was changed; it is the n of all rows.
	turn := 0
	touch := func(tables ...string) {
		turn++
		for _, table := range tables {
			source.exec(fmt.Sprintf("UPDATE %s SET n = %d", table, turn))
		}
	}
	at := func(table string, n int) bool {
		return slices.Equal(target.list("SELECT DISTINCT n::text FROM "+table), []string{fmt.Sprint(n)})
	}
	arrives := func(what, table string, n int) {
		t.Helper()
		eventually(t, what, func() bool { return at(table, n) })
	}
	waits := func(table string, n int) {
		t.Helper()
		if !at(table, n) {
			t.Errorf("table %s did not stay at %d: %v", table, n, target.list("SELECT DISTINCT n::text FROM "+table))
		}
	}
	first.start()
	equalRows(t, source, target, "item", "other")
	second.start()
	eventually(t, "the second process stands by", func() bool { return stateOf(second, "shop") == pipeline.Standby })

	// A table of the source, told to the process that does not read it.
	say(second, "pause", "shop/public.item")
	for _, l := range []*line{first, second} {
		eventually(t, "the table is paused", func() bool { return tableState(l, "shop", "public.item") == pipeline.Paused })
	}
	touch("item", "other")
	arrives("the other table goes on", "other", 1)
	waits("item", 0)
	if code := first.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	eventually(t, "the second process runs the source", func() bool { return runs(second, "shop") })
	touch("item", "other")
	arrives("the other table goes on in the second process", "other", 2)
	waits("item", 0)
	first.start()
	eventually(t, "the first process stands by", func() bool { return stateOf(first, "shop") == pipeline.Standby })
	second.kill()
	eventually(t, "the first process runs the source", func() bool { return runs(first, "shop") })
	touch("item", "other")
	arrives("the other table goes on after kill -9", "other", 3)
	waits("item", 0)
	second.start()
	eventually(t, "the second process stands by again", func() bool { return stateOf(second, "shop") == pipeline.Standby })
	say(second, "resume", "shop/public.item")
	touch("item", "other")
	arrives("what waited has come", "item", 4)
	arrives("the other table goes on", "other", 4)

	// A second pause of the same table, and a kill of the process while it moves what waited, or shortly before or after.
	say(first, "pause", "shop/public.item")
	eventually(t, "the table is paused again", func() bool { return tableState(first, "shop", "public.item") == pipeline.Paused })
	for range 20 {
		touch("item", "other")
	}
	arrives("the other table goes on", "other", turn)
	waits("item", 4)
	say(first, "resume", "shop/public.item")
	first.kill()
	eventually(t, "the second process runs the source", func() bool { return runs(second, "shop") })
	touch("item", "other")
	arrives("what waited has come after the kill", "item", turn)
	eventually(t, "nothing waits any more", func() bool {
		code, out := second.run("topics", "list", "--internal")
		return code == 0 && !strings.Contains(out, "_trunkline.held.")
	})
	first.start()
	eventually(t, "the first process stands by again", func() bool { return stateOf(first, "shop") == pipeline.Standby })

	// The whole source.
	say(first, "pause", "shop")
	eventually(t, "the source is paused in the process that reads it", func() bool { return stateOf(second, "shop") == pipeline.Paused })
	before := turn
	touch("item", "other")
	if code := second.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	eventually(t, "the source is paused in the process that takes over", func() bool { return stateOf(first, "shop") == pipeline.Paused })
	second.start()
	eventually(t, "the second process is there", func() bool { return stateOf(second, "shop") != "" })
	waits("item", before)
	waits("other", before)
	say(second, "resume", "shop")
	arrives("the source goes on", "item", turn)

	// A sink, and a table of it.
	say(second, "pause", "replica")
	for _, l := range []*line{first, second} {
		eventually(t, "the sink is paused", func() bool { return stateOf(l, "replica") == pipeline.Paused })
	}
	before = turn
	touch("item", "other")
	first.kill()
	first.start()
	eventually(t, "the sink is paused after kill -9", func() bool { return stateOf(first, "replica") == pipeline.Paused })
	waits("item", before)
	say(first, "pause", "replica/public.item")
	say(first, "resume", "replica")
	arrives("the other table comes", "other", turn)
	waits("item", before)
	if code := second.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	touch("other")
	arrives("the other table comes in one process", "other", turn)
	waits("item", before)
	second.start()
	say(first, "resume", "replica/public.item")
	touch("item", "other")
	equalRows(t, source, target, "item", "other")

	// Each row has each of its versions once, in order.
	for _, table := range []string{"item", "other"} {
		list := versions(first, "shop.public."+table)
		if len(list) != keys {
			t.Fatalf("topic of %s has %d keys, want %d", table, len(list), keys)
		}
		var want []int
		for n := range turn + 1 {
			if table == "other" || n != turn-1 {
				want = append(want, n)
			}
		}
		for key, got := range list {
			if !slices.Equal(got, want) {
				t.Fatalf("the versions of %s %s in the log are %v, want %v", table, key, got, want)
			}
		}
	}
	for _, l := range []*line{first, second} {
		if code := l.stop(); code != 0 {
			t.Errorf("a clean drain ended with %d", code)
		}
	}
}
