package endtoend

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/pipeline"
)

// busy changes rows of table item below a key until stop is called.
func busy(t *testing.T, db *database, below int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		conn, err := pgx.Connect(ctx, db.URL)
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close(context.Background())
		for i := 0; ctx.Err() == nil; i++ {
			_, err := conn.Exec(context.Background(), fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id = %d", i*7%below))
			if err != nil {
				ended <- err
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
		ended <- nil
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the writer ended: %v", err)
		}
	}
}

// verified runs verify and returns what it found, by table.
func verified(t *testing.T, l *line, want int, args ...string) map[string]pipeline.Verified {
	t.Helper()
	code, out := l.run(append([]string{"verify", "replica", "--json"}, args...)...)
	if code != want {
		t.Fatalf("verify ended with %d, want %d: %s", code, want, out)
	}
	var list []pipeline.Verified
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&list); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	byTable := map[string]pipeline.Verified{}
	for _, r := range list {
		byTable[r.Table] = r
	}
	return byTable
}

func found(r pipeline.Verified) []string {
	var out []string
	for _, d := range r.Different {
		out = append(out, fmt.Sprint(d.Kind, " ", d.Key, " ", strings.Join(d.Columns, ",")))
	}
	return out
}

// Rows that were changed behind the line's back are found and repaired while both ends change.
func TestVerifyFindsAndRepairs(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL, big text, at timestamptz)",
		"INSERT INTO item SELECT i, 0, repeat('x', i % 50), '2026-01-01' FROM generate_series(0, 4999) i",
		`CREATE TABLE "Odd ""one" (a text, b uuid, v numeric, doc jsonb, arr text[], raw bytea, PRIMARY KEY (a, b))`,
		`INSERT INTO "Odd ""one" SELECT chr(39) || i, md5(i::text)::uuid, i / 3.0, '{"a": 1.0}', ARRAY['x', NULL, '"'], '\x00ff' FROM generate_series(1, 300) i`)
	l := follow(t, source, target, []string{"tables: [public.*]"}, "item", `"Odd ""one"`)
	stop := busy(t, source, 4000)
	if all := verified(t, l, 0); len(all) != 2 || all["public.item"].Rows != 5000 || all["public.item"].VerifiedThrough.IsZero() || !all["public.item"].Equal() {
		t.Fatalf("two equal tables are %+v", all)
	}
	target.exec("UPDATE item SET big = 'y' WHERE id IN (4100, 4200)", "UPDATE item SET at = NULL WHERE id = 4300", "UPDATE item SET n = -1 WHERE id = 7",
		"DELETE FROM item WHERE id IN (4400, 4500)", "INSERT INTO item VALUES (6000, 1), (6001, 1)",
		`UPDATE "Odd ""one" SET v = 5.0 WHERE a = '''15'`, `DELETE FROM "Odd ""one" WHERE a = '''16'`)
	eventually(t, "the row that changes is right again by itself", func() bool { return target.list("SELECT (n >= 0)::text FROM item WHERE id = 7")[0] == "true" })
	all := verified(t, l, 1)
	want := []string{`differs {"id":4100} big`, `differs {"id":4200} big`, `differs {"id":4300} at`, `missing {"id":4400} `, `missing {"id":4500} `,
		`extra {"id":6000} `, `extra {"id":6001} `}
	if got := found(all["public.item"]); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	odd := all[`public.Odd "one`]
	if got := found(odd); len(got) != 2 || !strings.HasPrefix(got[0], `differs {"a":"'15","b":"`) || !strings.HasSuffix(got[0], " v") || !strings.HasPrefix(got[1], `missing {"a":"'16"`) {
		t.Errorf("found %q", got)
	}
	if odd.Method != "hashed in both databases" {
		t.Errorf("two servers of one version are compared otherwise: %s", odd.Method)
	}
	all = verified(t, l, 0, "--repair")
	if all["public.item"].Repaired != 7 || all[`public.Odd "one`].Repaired != 2 {
		t.Errorf("repaired %+v", all)
	}
	stop()
	equalRows(t, source, target, "item", `"Odd ""one"`)
	if all := verified(t, l, 0); !all["public.item"].Equal() {
		t.Errorf("after the repair: %+v", all)
	}
	if l.kill(); len(source.list("SELECT slot_name::text FROM pg_replication_slots WHERE slot_name = '"+slotOf(source)+"'")) != 1 {
		t.Error("the slot is gone")
	}
}

// A store of another kind holds the same rows in its own form, and is found equal until a value is another one.
func TestVerifyAcrossStores(t *testing.T) {
	t.Parallel()
	source, copied, target := newDatabase(t), newMaria(t), newMaria(t)
	source.exec(`CREATE TABLE item (id bigint PRIMARY KEY, b bool, n numeric(12,3), f float8, r float4, s text, c char(5), d date, ts timestamp, tz timestamptz,
			u uuid, raw bytea, j jsonb, day time)`,
		`INSERT INTO item SELECT i, i % 2 = 0, i / 7.0, i / 3.0, i / 5.0, 'zeile ' || i || ' ä', 'ab', '2026-01-30', '2026-01-30 12:34:56.5', '2026-01-30 12:34:56.123456+02',
			md5(i::text)::uuid, decode(md5(i::text), 'hex'), '{"b": 1, "a": [1, 2]}', '12:34:56.7' FROM generate_series(1, 500) i`,
		"INSERT INTO item (id) VALUES (1000)", "CREATE TABLE word (w text PRIMARY KEY, n int)", "INSERT INTO word VALUES ('a', 1), ('B', 2), ('ß', 3), ('', 4)")
	copied.exec("CREATE TABLE thing (id int, part varchar(20), at timestamp(6) NULL, price decimal(10,2), flags bit(3), kind enum('x','y'), body blob, f float, PRIMARY KEY (id, part))",
		"INSERT INTO thing SELECT seq, CONCAT('p', seq % 3), '2026-01-30 12:00:00.25', seq / 4, seq % 8, IF(seq % 2, 'x', 'y'), UNHEX(MD5(seq)), seq / 3 FROM seq_1_to_400")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.*]")+copied.source("copied"),
		strings.ReplaceAll(target.sink("maria"), `topics: ["*"]`, `topics: ["shop.*", "copied.*"]`)+
			"  lite:\n    type: sqlite\n    path: DIR/lite.db\n    topics: ['*']\n")
	l.start()
	eventually(t, "all is there", func() bool {
		return slices.Equal(target.list("SELECT (SELECT COUNT(*) FROM item) + (SELECT COUNT(*) FROM thing) + (SELECT COUNT(*) FROM word)"), []string{"905"})
	})
	for _, sink := range []string{"maria", "lite"} {
		code, out := l.run("verify", sink)
		if code != 0 || strings.Count(out, "equal, verified through") != 3 {
			t.Errorf("%s ended with %d: %s", sink, code, out)
		}
	}
	target.exec("UPDATE item SET n = n + 0.001 WHERE id = 77", "DELETE FROM word WHERE w = 'ß'", "UPDATE thing SET f = 0.5 WHERE id = 7", "INSERT INTO thing (id, part) VALUES (-1, 'z')")
	code, out := l.run("verify", "maria")
	for _, want := range []string{`differs {"id":77}: n`, `missing {"w":"ß"}`, `differs {"id":7,"part":"p1"}: f`, `extra {"id":-1,"part":"z"}`, "hashed in both databases", "rows read and hashed here"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("%d, without %q: %s", code, want, out)
		}
	}
	if code, out := l.run("verify", "maria", "--repair"); code != 0 || strings.Count(out, "are equal now") != 3 {
		t.Errorf("the repair ended with %d: %s", code, out)
	}
}

// Without a source that brings what changes, nothing can be said, and nothing is.
func TestVerifyNeedsTheLine(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, n int)", "CREATE TABLE log (n int)", "ALTER TABLE log REPLICA IDENTITY FULL",
		"INSERT INTO item VALUES (1, 1), (2, 2)", "INSERT INTO log VALUES (1)")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.*]"), postgresSink(target, "replica", "verify: {every: 300ms, window: 100ms, repair: true}")+fileSink)
	if code, out := l.run("verify", "replica"); code != 1 || !strings.Contains(out, "trunkline run") {
		t.Errorf("without a daemon: %d %s", code, out)
	}
	l.start()
	equalRows(t, source, target, "item", "log")
	if code, out := l.run("verify", "archive"); code != 1 || !strings.Contains(out, "type file") {
		t.Errorf("a file: %d %s", code, out)
	}
	if code, out := l.run("verify", "replica", "public.none"); code != 1 || !strings.Contains(out, "public.none") {
		t.Errorf("an unknown table: %d %s", code, out)
	}
	target.exec("UPDATE item SET n = 9 WHERE id = 2")
	equalRows(t, source, target, "item") // verify: {every, repair} does it by itself
	l.run("pause", "shop")
	target.exec("UPDATE item SET n = 9 WHERE id = 2")
	deadline := time.Now().Add(patience)
	for {
		code, out := l.run("verify", "replica", "public.item")
		if code == 1 && strings.Contains(out, "source shop is paused") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a paused source: %d %s", code, out)
		}
	}
}

// Ten rows of millions that were changed behind the line's back are found and repaired; the time of a full comparison of
// both tables, row by row in one place, stands beside it. TRUNKLINE_SOAK=1 runs it.
func TestVerifyFindsTenOfTenMillion(t *testing.T) {
	if os.Getenv("TRUNKLINE_SOAK") == "" {
		t.Skip("takes minutes and 3 GB; TRUNKLINE_SOAK=1 runs it")
	}
	const rows = 10_000_000
	source, target := newDatabase(t), newDatabase(t)
	for _, db := range []*database{source, target} {
		db.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note text, price numeric(12,2), at timestamptz)",
			fmt.Sprintf("INSERT INTO item SELECT i, i %% 1000, 'note ' || i, i / 100.0, '2026-01-01'::timestamptz + i * interval '1 second' FROM generate_series(1, %d) i", rows), "ANALYZE item")
	}
	l := newLine(t, postgresSource(source, "shop", "tables: [public.item]", "snapshot: never"), postgresSink(target, "replica"))
	l.start()
	eventually(t, "the source runs", func() bool { return stateOf(l, "shop") == pipeline.CaughtUp }) // what changes before its slot is there is not read
	source.exec("UPDATE item SET n = 5 WHERE id = 1")
	eventually(t, "the line runs", func() bool { return slices.Equal(target.list("SELECT n::text FROM item WHERE id = 1"), []string{"5"}) })
	target.exec("UPDATE item SET price = 0 WHERE id % 2500000 = 7", "DELETE FROM item WHERE id % 3000000 = 11", "INSERT INTO item VALUES (-1, 0), (20000000, 0)")
	before := time.Now()
	full := fullComparison(t, source, target)
	compared := time.Since(before)
	result := verified(t, l, 1)["public.item"]
	if len(result.Different) != 10 || full != 10 {
		t.Errorf("verify found %d keys and the full comparison %d, want 10: %v", len(result.Different), full, found(result))
	}
	repaired := verified(t, l, 0, "--repair")["public.item"]
	if repaired.Repaired != 10 {
		t.Errorf("repaired %d", repaired.Repaired)
	}
	t.Logf("%d rows: verify %.1f s, full comparison %.1f s, ratio %.2f; with repair %.1f s", result.Rows, result.Seconds, compared.Seconds(),
		compared.Seconds()/result.Seconds, repaired.Seconds)
}

// fullComparison reads both tables in the order of their key and counts the rows that differ.
func fullComparison(t *testing.T, source, target *database) int {
	t.Helper()
	lines := func(db *database) *bufio.Scanner {
		conn, err := pgx.Connect(t.Context(), db.URL)
		if err != nil {
			t.Fatal(err)
		}
		out, in := io.Pipe()
		t.Cleanup(func() { out.Close() })
		go func() {
			_, err := conn.PgConn().CopyTo(context.Background(), in, "COPY (SELECT * FROM item ORDER BY id) TO STDOUT")
			in.CloseWithError(err)
			conn.Close(context.Background())
		}()
		return bufio.NewScanner(out)
	}
	key := func(line string) int64 {
		text, _, _ := strings.Cut(line, "\t")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b := lines(source), lines(target)
	moreA, moreB, different := a.Scan(), b.Scan(), 0
	for moreA || moreB {
		switch {
		case !moreB || moreA && key(a.Text()) < key(b.Text()):
			different++
			moreA = a.Scan()
		case !moreA || key(b.Text()) < key(a.Text()):
			different++
			moreB = b.Scan()
		default:
			if a.Text() != b.Text() {
				different++
			}
			moreA, moreB = a.Scan(), b.Scan()
		}
	}
	if err := errors.Join(a.Err(), b.Err()); err != nil {
		t.Fatal(err)
	}
	return different
}
