package endtoend

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trunkline/trunkline/pipeline"
)

// The corpus is one table for each family of types, with a row for each edge case, a script of changes over these tables,
// and the database's own text of their contents after both. What arrives has to be the same bytes.
const corpusDir = "testdata/corpus"

// corpusWay is one way to bring the corpus from one database to the other.
type corpusWay struct {
	name   string
	short  bool     // part of the suite that runs at each commit
	source []string // settings of the source
	sink   []string
	stream bool   // no snapshot: the rows are loaded while the daemon runs
	kills  bool   // kill -9 now and then
	steps  int    // kill -9 after each so many statements of the changes; of one schema, from their second section on
	schema string // the only schema to read
	leave  string // a table to leave out

	// PostgreSQL
	database []string // settings of the source's database, which reach every session that does not set its own
	publish  string   // options of a publication that the user made for all tables
	split    bool     // that publication has partitions under their own names, so partitioned tables are refused
	prepared bool     // on a server that can prepare transactions
	since    int      // the first version of PostgreSQL that has what the way needs

	// MariaDB
	server map[string]string // settings of the source's server
}

// corpusPair is a source and a target of one kind of database.
type corpusPair interface {
	dir() string
	// fill makes the tables of both, and the rows of the source unless they are to come by the stream. It returns the
	// settings of the source and of the sink.
	fill() (source, sink string)
	streams() bool // the source is being read
	rows() []byte  // the script that loads the rows alone
	// feed runs a script in the source, with the server's own client. After each statement it calls after, if there is one.
	feed(script []byte, after func(statement []byte))
	dump(wanted, got map[string][]byte)
	apart() []string   // files of tables that the way leaves out or that are judged apart
	unequal() []string // those that the stream's changes cannot get right
}

// runCorpus brings the corpus over in every way, or in those of the suite.
func runCorpus(t *testing.T, kind string, ways []corpusWay, open func(*testing.T, *corpusWay) corpusPair) {
	all := os.Getenv("TRUNKLINE_CORPUS") == "all"
	if !all {
		t.Parallel()
	}
	var count, tables, rows atomic.Int64
	t.Run("ways", func(t *testing.T) {
		for _, way := range ways {
			if !way.short && !all {
				continue
			}
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				n, r := bringCorpus(t, &way, open(t, &way))
				count.Add(1)
				tables.Store(max(tables.Load(), int64(n)))
				rows.Store(max(rows.Load(), int64(r)))
			})
		}
	})
	t.Logf("corpus: %d tables, %d rows, %d ways from %s", tables.Load(), rows.Load(), count.Load(), kind)
}

// TestCorpusStatementByStatement kills the daemon with -9 between statements of the changes. TRUNKLINE_SOAK does so after each
// one, for all tables; else it is after some, for those of the changes.
func TestCorpusStatementByStatement(t *testing.T) {
	t.Parallel()
	postgres, mariadb := corpusWay{steps: 12, schema: "chg", leave: "chg.big_txn"}, corpusWay{steps: 12, schema: "corpus_chg", leave: "corpus_chg.big_txn"}
	if os.Getenv("TRUNKLINE_SOAK") != "" {
		postgres, mariadb = corpusWay{steps: 1}, corpusWay{steps: 1}
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		bringCorpus(t, &postgres, openPostgres(t, &postgres))
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		bringCorpus(t, &mariadb, openMaria(t, &mariadb))
	})
}

// bringCorpus brings the corpus over in one way and returns the numbers of tables and rows that were compared at the end.
func bringCorpus(t *testing.T, way *corpusWay, pair corpusPair) (tables, rows int) {
	source, sink := pair.fill()
	l := newLine(t, source, sink)
	l.start()
	if way.stream {
		eventually(t, "the stream runs", func() bool { return pair.streams() && runs(l, "corpus") })
		withKills(l, way.kills, func() { pair.feed(pair.rows(), nil) })
	}
	except := pair.apart()
	compareCorpus(t, pair, "after-load", way.schema, except)
	changes := readCorpus(t, pair.dir(), "changes.sql")
	if way.steps > 0 {
		feedAndKill(l, way, pair, changes)
	} else {
		withKills(l, way.kills, func() { pair.feed(changes, nil) })
	}
	except = append(except, pair.unequal()...)
	tables, rows = compareCorpus(t, pair, "after-changes", way.schema, except)
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	return tables, rows
}

// withKills runs a script and, if asked to, kills the daemon and starts it again every now and then meanwhile.
func withKills(l *line, kills bool, script func()) {
	if !kills {
		script()
		return
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		script()
	}()
	for {
		select {
		case <-over:
			return
		case <-time.After(700 * time.Millisecond):
			l.kill()
			l.start()
		}
	}
}

// feedAndKill runs a script statement by statement and kills the daemon after each so many: at once, when it has just
// begun to read the source, or when it has read something.
func feedAndKill(l *line, way *corpusWay, pair corpusPair, script []byte) {
	l.t.Helper()
	seed := uint64(time.Now().UnixNano())
	l.t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	statements, kills := 0, 0
	begun := way.schema == "" // the first section is about the others
	pair.feed(script, func(statement []byte) {
		if begun = begun || bytes.Contains(statement, []byte("\n-- 2. ")); !begun {
			return
		}
		if statements++; statements%way.steps != 0 {
			return
		}
		switch rng.IntN(3) {
		case 1:
			within(time.Second, func() bool {
				state := statusOf(l, "corpus").State
				return state == pipeline.Running || state == pipeline.CaughtUp
			})
		case 2:
			within(time.Second, func() bool { return statusOf(l, "corpus").Rows > 0 })
		}
		l.kill()
		l.start()
		kills++
	})
	l.t.Logf("%d kills after %d statements", kills, statements)
}

// within waits until a condition holds, or for so long.
func within(most time.Duration, condition func() bool) {
	for deadline := time.Now().Add(most); !condition() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}

// statusOf asks a daemon, which may be about to begin, for the status of one of its sources or sinks.
func statusOf(l *line, name string) pipeline.MemberStatus {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + l.http + "/api/status")
	if err != nil {
		return pipeline.MemberStatus{}
	}
	defer answer.Body.Close()
	var s pipeline.Status
	if json.NewDecoder(answer.Body).Decode(&s) == nil {
		for _, m := range append(s.Sources, s.Sinks...) {
			if m.Name == name {
				return m
			}
		}
	}
	return pipeline.MemberStatus{}
}

func readCorpus(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{corpusDir}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compareCorpus waits until the target is what is expected, and reports the tables that do not get there.
func compareCorpus(t *testing.T, pair corpusPair, moment, schema string, except []string) (tables, rows int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(corpusDir, pair.dir(), "expected", moment))
	if err != nil {
		t.Fatal(err)
	}
	waiting := map[string][]byte{}
	for _, e := range entries {
		if slices.Contains(except, e.Name()) || !strings.HasPrefix(e.Name(), schema) {
			continue
		}
		b := readCorpus(t, pair.dir(), "expected", moment, e.Name())
		waiting[e.Name()] = b
		tables, rows = tables+1, rows+countRows(t, b)
	}
	got := map[string][]byte{}
	deadline := time.Now().Add(patience)
	for len(waiting) > 0 && time.Now().Before(deadline) {
		pair.dump(waiting, got)
		for name, want := range waiting {
			if bytes.Equal(got[name], want) {
				delete(waiting, name)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	for name, want := range waiting {
		t.Errorf("%s: %s differs: %s", moment, name, firstDifference(strings.Split(string(want), "\n"), strings.Split(string(got[name]), "\n")))
	}
	return tables, rows
}
