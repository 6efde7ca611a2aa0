package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// childEnv makes the test binary a writer that is killed.
const childEnv = "TRUNKLINE_TEST_SQLITE_SINK"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := writeForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForever appends rows to a table without a key, in which a row that is written twice stands twice. It goes on at
// the position that the file holds and prints each position that is durable.
func writeForever(path string) error {
	ctx := context.Background()
	s, err := openSink(ctx, &SinkConfig{File: File{Path: path}, Table: "{table}", Write: Upsert, Deletes: ApplyDeletes, Schema: connectors.FollowAll(connectors.Evolve)}, connectors.NewEnv("target"))
	if err != nil {
		return err
	}
	p, err := s.(connectors.Transactional).Committed(ctx, "pair/0")
	if err != nil {
		return err
	}
	next := int64(0)
	if p != nil {
		if next, err = strconv.ParseInt(string(p), 10, 64); err != nil {
			return err
		}
	}
	table := newPairs()
	for {
		var changes []connectors.Change
		for range next%7 + 1 {
			changes = append(changes, connectors.Change{Op: connectors.Insert, Table: table, Offset: next, After: pair(next, "x")})
			next++
		}
		if err := s.Write(ctx, connectors.Batch{Stream: "pair/0", Changes: changes, Position: strconv.AppendInt(nil, next, 10)}); err != nil {
			return err
		}
		fmt.Println(next)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("every row that was promised is there once", func(t *testing.T) {
		t.Parallel()
		f := newFile(t)
		for round := range 5 {
			promised := writeAndKill(t, f.path)
			var rows, different, last int64
			err := f.db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT a), max(a) FROM pair").Scan(&rows, &different, &last)
			if err != nil {
				t.Fatal(err)
			}
			if rows != different || rows != last+1 || rows < promised {
				t.Fatalf("round %d: %d rows, %d different, the last is %d, %d were promised", round, rows, different, last, promised)
			}
		}
	})
}

// writeAndKill lets a child write fifty batches, kills it in the middle of what comes next, and returns what it had
// promised.
func writeAndKill(t *testing.T, path string) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	promised, n := int64(0), 0
	lines := bufio.NewScanner(out)
	for ; lines.Scan(); n++ {
		next, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			break // the last line may be cut
		}
		promised = next
		if n == 50 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it says "killed"
	if n < 50 {
		t.Fatalf("the child ended by itself after %d rows", promised)
	}
	return promised
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	c := &SourceConfig{File: File{Path: t.TempDir() + "/gone.db"}, Tables: []connectors.TableSpec{{Name: "*"}}}
	if _, err := openSource(t.Context(), c, connectors.NewEnv("shop"), nil); err == nil || !strings.Contains(err.Error(), c.Path+": it does not exist") {
		t.Errorf("open: %v", err)
	}
	if _, err := os.Stat(c.Path); err == nil {
		t.Error("the source made the file")
	}
}
