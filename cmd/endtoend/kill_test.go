package endtoend

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// archived is what the JSON lines of a test say.
type archived struct {
	inserts map[string]int // table and key of each line with op c or r, and how often it stands there
	places  map[string]int // topic, partition and offset of each line, and how often it stands there
	ops     map[string]int
}

func readArchive(t *testing.T, dir string) archived {
	t.Helper()
	a := archived{map[string]int{}, map[string]int{}, map[string]int{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var l struct {
				Topic     string          `json:"topic"`
				Partition int             `json:"partition"`
				Offset    int64           `json:"offset"`
				Op        string          `json:"op"`
				Key       json.RawMessage `json:"key"`
			}
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			a.places[fmt.Sprintf("%s %d %d", l.Topic, l.Partition, l.Offset)]++
			a.ops[l.Op]++
			if l.Op == "c" || l.Op == "r" {
				a.inserts[l.Topic+" "+string(l.Key)]++
			}
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestKilledThreeTimes takes a snapshot of 30,000 rows, then kills the daemon with -9 three times under a mixed load.
func TestKilledThreeTimes(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note text, big text)",
		"ALTER TABLE item ALTER big SET STORAGE EXTERNAL",
		"INSERT INTO item SELECT i, i, 'note ' || i, CASE WHEN i % 500 = 0 THEN repeat('x', 5000) END FROM generate_series(1, 30000) AS i")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.item]"), postgresSink(target, "replica")+fileSink)
	l.start()
	eventually(t, "the snapshot is in the target", func() bool { return len(target.list("SELECT 'x' FROM item")) == 30000 })

	ctx, stop := context.WithCancel(context.Background())
	load := make(chan error, 1)
	last := 30000
	go func() { load <- mixedLoad(ctx, source.URL, &last) }()
	for range 3 {
		before := count(target)
		eventually(t, "changes arrive", func() bool { return count(target) > before+200 })
		l.kill()
		l.start()
	}
	stop()
	if err := <-load; err != nil {
		t.Fatal(err)
	}
	source.exec("INSERT INTO item VALUES (-1, 0, 'the last one', NULL)")
	equalRows(t, source, target, "item")
	eventually(t, "the archive has the last row", func() bool {
		return readArchive(t, filepath.Join(l.dir, "archive")).inserts[`shop.public.item {"id":-1}`] == 1
	})
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	a := readArchive(t, filepath.Join(l.dir, "archive"))
	for at, n := range a.places {
		if n != 1 {
			t.Errorf("%s stands %d times in the archive", at, n)
		}
	}
	for id := 1; id <= last; id++ {
		if n := a.inserts[fmt.Sprintf(`shop.public.item {"id":%d}`, id)]; n != 1 {
			t.Fatalf("the insert of id %d stands %d times in the archive", id, n)
		}
	}
}

func count(d *database) int { return len(d.list("SELECT 'x' FROM item WHERE id > 30000")) }

// mixedLoad inserts ids above 30,000 without a hole, updates, deletes and rolls back, until ctx ends. last becomes the
// last id that was committed.
func mixedLoad(ctx context.Context, dsn string, last *int) error {
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for ctx.Err() == nil {
		first, n := *last+1, 1+rand.IntN(20)
		rollback := rand.IntN(10) == 0
		err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue("INSERT INTO item SELECT i, i, 'new', CASE WHEN i % 100 = 0 THEN repeat('y', 5000) END FROM generate_series($1::bigint, $2) AS i", first, first+n-1)
			batch.Queue("UPDATE item SET n = n + 1 WHERE id % 997 = $1", rand.IntN(997))
			batch.Queue("DELETE FROM item WHERE id = $1", 1+rand.IntN(first))
			if err := tx.SendBatch(context.Background(), batch).Close(); err != nil {
				return err
			}
			if rollback {
				return errRollback
			}
			return nil
		})
		switch {
		case err == errRollback:
		case err != nil:
			return err
		default:
			*last = first + n - 1
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

var errRollback = fmt.Errorf("rolled back on purpose")
