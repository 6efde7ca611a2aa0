package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// TestSnapshotResumesAtEveryPosition closes and opens the source again after every position of the snapshot, while the
// tables are written to: rows move from pages that were not read to pages that were, rows with out-of-line values are
// updated and deleted, and the file grows.
func TestSnapshotResumesAtEveryPosition(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.moving public.small", `CREATE TABLE moving (id int PRIMARY KEY, n int, pad text, big text) WITH (fillfactor = 50)`, `ALTER TABLE moving ALTER big SET STORAGE EXTERNAL`,
		`INSERT INTO moving SELECT i, 0, repeat('p', 700), repeat(md5(i::text), 80) FROM generate_series(1, 9000) i`,
		`DELETE FROM moving WHERE id % 10 = 0`, `CREATE TABLE small (id int PRIMARY KEY, v text)`, `INSERT INTO small SELECT i, 'v' FROM generate_series(1, 100) i`)
	h.exec(`VACUUM moving`)
	ranges := h.query("SELECT (pg_relation_size('moving') / 8192 / 512)::text")
	stop := h.load(func(i int) []string {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		return []string{
			fmt.Sprintf(`UPDATE moving SET n = n + 1, pad = repeat('q', 700) WHERE id BETWEEN %d AND %d + 5`, r.IntN(9000), r.IntN(9000)),
			fmt.Sprintf(`UPDATE moving SET n = n + 1 WHERE id IN (%d, %d, %d)`, r.IntN(9000), r.IntN(9000), r.IntN(9000)),
			fmt.Sprintf(`DELETE FROM moving WHERE id = %d`, r.IntN(9000)),
			fmt.Sprintf(`INSERT INTO moving VALUES (%d, 0, 'new', repeat('b', 3000)) ON CONFLICT DO NOTHING`, 20000+r.IntN(2000)),
			fmt.Sprintf(`UPDATE small SET v = 'w%d' WHERE id = %d`, i, r.IntN(100)),
		}
	})
	rounds := 0
	for done := false; !done; rounds++ {
		h.open()
		for seen := 0; seen < 4+rounds/2 && !done; { // the greeting and some ranges; later lives are longer, as the file grows
			b, err := h.read()
			if err != nil {
				t.Fatal(err)
			}
			if b.Position != nil {
				seen++
				p, err := parsePosition(b.Position)
				done = err == nil && p.Snapshot == nil
			}
		}
	}
	stop()
	h.catchUp()
	h.wantTable("public.moving", "id, n, pad, big", "id")
	h.wantTable("public.small", "id, v", "id")
	t.Logf("%d rounds, %s ranges, %d changes", rounds, ranges, len(h.changes))
	if rounds < 3 {
		t.Errorf("%d rounds: the snapshot was not interrupted", rounds)
	}
}

func TestSnapshotReadsEachRowOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY, v text)`, `INSERT INTO t SELECT i, repeat('v', 500) FROM generate_series(1, 30000) i`)
	h.config.SnapshotBuffer, h.env.Limits.BatchRows = 1<<20, 1000 // so small that workers take their turn early
	h.open()
	pieces, ranges := 0, 0
	for p := (&position{Snapshot: &snapshotMark{}}); p.Snapshot != nil; {
		b, err := h.read()
		if err != nil {
			t.Fatal(err)
		}
		if b.Position == nil {
			pieces++
			continue
		}
		if p, err = parsePosition(b.Position); err != nil {
			t.Fatal(err)
		}
		if ranges++; ranges%2 == 0 && ranges < 8 {
			h.open() // nothing else is written: each row comes once, whatever is interrupted
		}
	}
	ids := map[int64]int{}
	for _, c := range h.changes {
		ids[c.After[0].Int()]++
	}
	if len(h.changes) != 30000 || len(ids) != 30000 || pieces == 0 {
		t.Errorf("%d rows, %d different ones, %d pieces", len(h.changes), len(ids), pieces)
	}
}

func TestTableRewrittenDuringTheSnapshot(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.a public.b", `CREATE TABLE a (id int PRIMARY KEY, v text)`, `INSERT INTO a SELECT i, repeat('v', 1000) FROM generate_series(1, 9000) i`,
		`CREATE TABLE b (id int PRIMARY KEY, v int)`, `INSERT INTO b SELECT i, i FROM generate_series(1, 1000) i`)
	h.config.SnapshotWorkers = 1
	h.config.SnapshotBuffer = 1
	h.open()
	h.until("the first rows", func() bool { return len(h.changes) > 0 })
	h.exec(`ALTER TABLE b ALTER v TYPE bigint`) // to older snapshots the table looks empty now
	for retries := 0; ; {
		_, err := h.read()
		if err != nil {
			if retries++; retries > 3 {
				t.Fatal(err)
			}
			h.open()
		}
		if h.changesOf("public.b", connectors.Snapshot) == 1000 {
			break
		}
	}
	h.catchUp()
	h.wantTable("public.a", "id, v", "id")
	h.wantTable("public.b", "id, v", "id")
}

func TestFinishedRangesMerge(t *testing.T) {
	t.Parallel()
	var f fileMark
	for _, r := range [][2]uint32{{1024, 1536}, {0, 512}, {2048, 2560}, {512, 1024}, {1536, 2048}} {
		f.finish(r[0], r[1])
	}
	if !slices.Equal(f.Ranges, [][2]uint32{{0, 2560}}) {
		t.Errorf("ranges %v", f.Ranges)
	}
}
