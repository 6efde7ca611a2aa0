package deliver_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// wholeRows is a delivery that completes rows, with its file in dir.
func (s *line) wholeRows(dir string) deliver.Options {
	o := s.options()
	o.Complete, o.Dir, o.Batch.Rows = deliver.CompleteAlways, dir, 50
	return o
}

// touch is an update that leaves v out.
func touch(t *connectors.Table, id int, values ...string) connectors.Change {
	c := put(t, id, append([]string{""}, values...)...)
	c.After[1] = connectors.Value{}
	return c
}

// touchAway is touch with a change of the key.
func touchAway(t *connectors.Table, from, to int, values ...string) connectors.Change {
	c := touch(t, to, values...)
	c.Before = put(t, from, append([]string{""}, values...)...).After
	clear(c.Before[1:])
	return c
}

func (s *line) lastImage(id string) memory.Row {
	s.t.Helper()
	list := s.store.Log()
	for _, a := range slices.Backward(list) {
		if a.After["id"] == id {
			return a.After
		}
	}
	s.t.Fatalf("no image of %s", id)
	return nil
}

func TestUpdatesAreCompletedFromTheLog(t *testing.T) {
	t.Parallel()
	table := versionOf("v#2", "n#3")
	for _, again := range []string{"in one run", "after a restart", "after a restart without its file"} {
		t.Run(again, func(t *testing.T) {
			t.Parallel()
			s := newLine(t)
			s.topics.Partitions = 3
			dir := t.TempDir()
			next := func() {
				switch again {
				case "in one run":
					return
				case "after a restart without its file":
					dir = t.TempDir()
				}
				s.ingest()
				s.mustDeliver(s.wholeRows(dir))
			}
			for id := range 300 {
				s.feed.Append(put(table, id, fmt.Sprint("large ", id), "0"))
			}
			next()
			s.feed.Append(touch(table, 7, "1"))
			next()
			for id := 100; id < 300; id++ { // long ago
				s.feed.Append(touch(table, id, "1"))
			}
			next()
			renamed := versionOf("w#2", "n#3", "x#4")
			s.feed.Append(touch(table, 7, "2"), touch(renamed, 8, "3", "x"))
			s.ingest()
			d := s.mustDeliver(s.wholeRows(dir))
			for id, want := range map[string]string{"7": "map[id:7 n:2 v:large 7]", "8": "map[id:8 n:3 w:large 8 x:x]", "250": "map[id:250 n:1 v:large 250]"} {
				if got := fmt.Sprint(s.lastImage(id)); got != want {
					t.Errorf("image %s, want %s", got, want)
				}
			}
			if n := d.Status(t.Context()).Incomplete; n != 0 {
				t.Errorf("%d rows are incomplete", n)
			}
		})
	}
}

// What the log does not have any more is said, counted, and left to the sink to mark.
func TestWhatTheLogHasNoMoreIsLeftOut(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	table := versionOf("v#2", "n#3")
	s.feed.Append(touch(table, 1, "1")) // as after retention: its row came before all that the log has
	s.feed.Append(touch(table, 1, "2"))
	s.feed.Append(put(table, 2, "large", "1"))
	s.feed.Append(touch(table, 2, "2"))
	s.ingest()
	o := s.wholeRows(t.TempDir())
	var reasons []string
	o.OnReport = func(r connectors.Report) { reasons = append(reasons, r.Table+" "+r.Reason) }
	d := s.mustDeliver(o)
	if n := d.Status(t.Context()).Incomplete; n != 2 {
		t.Errorf("%d rows are incomplete, want 2", n)
	}
	if len(reasons) != 1 || !strings.Contains(reasons[0], `public.item an update left out column "v"`) {
		t.Errorf("reports %q", reasons)
	}
	if got := fmt.Sprint(s.lastImage("1"), s.lastImage("2")); got != "map[id:1 n:2] map[id:2 n:2 v:large]" {
		t.Errorf("images %s", got)
	}
	o = s.options()
	o.Group = "other"
	o.Dir = t.TempDir()
	s.mustDeliver(o) // a sink that asks for nothing gets what the log has
	if got := fmt.Sprint(s.lastImage("2")); got != "map[id:2 n:2]" {
		t.Errorf("image %s", got)
	}
	if files, err := filepath.Glob(o.Dir + "/*"); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

// Rows that moved between partitions, to and fro and under keys that others got then, are found in the past of all of them.
func TestMovesOfThePastAreFollowed(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 4
	table := versionOf("v#2", "n#3")
	for id := range 30 {
		s.feed.Append(put(table, id, fmt.Sprint("large ", id), "0"))
	}
	for id := range 30 {
		s.feed.Append(touchAway(table, id, id+100, "1"), put(table, id, "another", "1"), touchAway(table, id+100, id+200, "2"), touchAway(table, id+200, id+100, "3"), touch(table, id+100, "4"))
	}
	s.ingest()
	s.mustDeliver(s.wholeRows(t.TempDir()))
	for id := range 30 {
		s.feed.Append(touch(table, id, "5"), touch(table, id+100, "5"))
	}
	s.ingest()
	o := s.wholeRows(t.TempDir()) // it has lost its file, and stands behind all moves
	d := s.mustDeliver(o)
	for id := range 30 {
		for key, v := range map[int]string{id: "another", id + 100: fmt.Sprint("large ", id)} {
			if got, want := fmt.Sprint(s.lastImage(fmt.Sprint(key))), fmt.Sprintf("map[id:%d n:5 v:%s]", key, v); got != want {
				t.Errorf("image %s, want %s", got, want)
			}
		}
	}
	if n := d.Status(t.Context()).Incomplete; n != 0 {
		t.Errorf("%d rows are incomplete", n)
	}
}

// In a random life every image is whole and right, whenever the delivery begins anew and whatever it begins with.
func TestCompletedRowsAreRightInARandomLife(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newLine(t)
		s.topics.Partitions = 3
		table := versionOf("v#2", "n#3")
		large := map[int]string{}
		dir, n := t.TempDir(), 0
		for range 12 {
			for range rng.IntN(60) {
				n++
				id := rng.IntN(40)
				switch have, known := large[id]; {
				case rng.IntN(40) == 0:
					s.feed.Append(connectors.Change{Op: connectors.Truncate, Table: table})
					clear(large)
				case !known || rng.IntN(5) == 0:
					large[id] = fmt.Sprint("large ", n)
					s.feed.Append(put(table, id, large[id], large[id]))
				case rng.IntN(8) == 0:
					gone := put(table, id, "", "")
					gone.Op, gone.Before, gone.After = connectors.Delete, gone.After, nil
					s.feed.Append(gone)
					delete(large, id)
				case rng.IntN(3) == 0:
					to := 20 + rng.IntN(20)
					if _, taken := large[to]; taken {
						continue
					}
					s.feed.Append(touchAway(table, id, to, have))
					large[to] = have
					delete(large, id)
				default:
					s.feed.Append(touch(table, id, have))
				}
			}
			s.ingest()
			switch rng.IntN(4) {
			case 0:
				dir = t.TempDir()
			case 1:
				continue
			}
			o := s.wholeRows(dir)
			o.Batch.Rows = 1 + rng.IntN(20)
			s.mustDeliver(o)
		}
		for _, a := range s.store.Log() {
			if a.After != nil && a.Op != connectors.Truncate && a.After["v"] != a.After["n"] {
				t.Fatalf("seed %d: image %v at %s %d", seed, a.After, a.Stream, a.Offset)
			}
		}
	}
}
