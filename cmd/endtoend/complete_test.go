//go:build unix

package endtoend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/trunkline/trunkline/pipeline"
)

// F01: on a cluster too, each image of a row is whole: what an update leaves out comes from the log, in the process that reads
// the topic now, whatever that one has kept of it. The rows move to other processes by kill -9, by a second process and by its end,
// and under keys of other partitions.
func TestRowsAreCompletedOnACluster(t *testing.T) {
	t.Parallel()
	clusters := map[string]func(*testing.T) string{"kfake": fakeCluster}
	if os.Getenv("TRUNKLINE_SOAK") != "" {
		clusters["broker"] = func(t *testing.T) string { _, log := onCluster(t, 1); return log }
	}
	for name, start := range clusters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			completeOn(t, start(t))
		})
	}
}

func completeOn(t *testing.T, log string) {
	source, target := newDatabase(t), newDatabase(t)
	tables := []string{"a", "b", "c", "d"}
	const rows = 40
	for _, table := range tables {
		source.exec("CREATE TABLE "+table+" (id int PRIMARY KEY, was int, n int, big text)", "ALTER TABLE "+table+" ALTER big SET STORAGE EXTERNAL",
			fmt.Sprintf("INSERT INTO %s SELECT i, i, 0, repeat(i || '-', 2000) FROM generate_series(1, %d) AS i", table, rows))
	}
	sources := postgresSource(source, "shop", "tables: [public.*]")
	sinks := postgresSink(target, "images", "write: append", "batch: {rows: 10}")
	first, second := newLineOn(t, log, sources, sinks), newLineOn(t, log, sources, sinks)
	images := 0
	arrive := func(what string) {
		t.Helper()
		images += rows
		for _, table := range tables {
			eventually(t, what+": the images of "+table, func() bool {
				return len(target.list("SELECT 'x' FROM "+table)) >= images
			})
			for _, bad := range target.list("SELECT concat_ws('|', id, was, n, length(big), _unchanged) FROM " + table + " WHERE big IS DISTINCT FROM repeat(was || '-', 2000) OR _unchanged IS NOT NULL") {
				t.Fatalf("%s: an image of %s is not whole: %s", what, table, bad)
			}
			if n := len(target.list("SELECT 'x' FROM " + table)); n != images {
				t.Fatalf("%s: %s has %d images, want %d", what, table, n, images)
			}
		}
	}
	touch := func(set string) {
		for _, table := range tables {
			source.exec("UPDATE " + table + " SET " + set)
		}
	}
	first.start()
	arrive("snapshot")
	touch("n = n + 1")
	arrive("an update")
	first.kill()
	touch("n = n + 1")
	first.start()
	arrive("after kill -9")
	second.start()
	shared := func() bool {
		_, out := second.run("groups", "describe", "images", "--json")
		return membersOf(out) == 2
	}
	eventually(t, "both processes read topics", shared)
	touch("n = n + 1")
	arrive("with a second process")
	first.kill()
	touch("n = n + 1")
	arrive("the second process alone")
	first.start()
	eventually(t, "both processes read topics again", shared)
	if code := second.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	touch("n = n + 1")
	arrive("the first process alone")
	touch("id = id + 1000")
	arrive("under other keys")
	if n := incomplete(first); n != 0 {
		t.Errorf("%d rows are incomplete", n)
	}
	if code := first.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}

// membersOf counts the processes that read partitions of a group, as groups describe --json says.
func membersOf(description string) int {
	var group struct {
		Partitions []struct{ Member string } `json:"partitions"`
	}
	if json.Unmarshal([]byte(description), &group) != nil {
		return 0
	}
	members := map[string]bool{}
	for _, p := range group.Partitions {
		if p.Member != "" {
			members[p.Member] = true
		}
	}
	return len(members)
}

// incomplete counts the rows that the log could not complete for the sinks of a daemon; -1: it does not say.
func incomplete(l *line) int64 {
	answer, err := http.Get("http://" + l.http + "/api/status")
	if err != nil {
		return -1
	}
	defer answer.Body.Close()
	var s pipeline.Status
	if json.NewDecoder(answer.Body).Decode(&s) != nil || len(s.Sinks) == 0 {
		return -1
	}
	n := int64(0)
	for _, m := range s.Sinks {
		n += m.Incomplete
	}
	return n
}
