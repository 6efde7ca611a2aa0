//go:build duckdb

package duckdb

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// childEnv makes the test binary a writer that is killed.
const childEnv = "TRUNKLINE_TEST_DUCKDB_SINK"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := writeForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForever goes on where the file ends and prints each position that is durable. It appends, so that a
// change which is made twice shows.
func writeForever(path string) error {
	ctx := context.Background()
	c := &SinkConfig{Path: path, Table: "{schema}.{table}", Write: writeAppend, Schema: connectors.FollowAll(connectors.Evolve),
		Unrepresentable: connectors.UnrepresentableText, Memory: 256 << 20, Threads: 1}
	if err := c.Validate(); err != nil {
		return err
	}
	s, err := open(ctx, c, connectors.NewEnv("lake"))
	if err != nil {
		return err
	}
	p, err := s.(connectors.Transactional).Committed(ctx, "shop.pair/0")
	if err != nil {
		return err
	}
	next := int64(0)
	if p != nil {
		if next, err = strconv.ParseInt(string(p), 10, 64); err != nil {
			return err
		}
	}
	table := pairs(0)
	for {
		var changes []connectors.Change
		for range next%7 + 1 {
			changes = append(changes, connectors.Change{Op: connectors.Insert, Table: table, Offset: next, After: pair(next, "x")})
			next++
		}
		if err := s.Write(ctx, connectors.Batch{Stream: "shop.pair/0", Changes: changes, Position: strconv.AppendInt(nil, next, 10)}); err != nil {
			return err
		}
		fmt.Println(next)
	}
}

// child lets a process write until it has promised enough, calls do while it goes on, kills it in the middle of what comes
// next, and returns what it had promised.
func child(t *testing.T, path string, enough int64, do func()) (promised int64) {
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
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			break // the last line may be cut
		}
		if promised = n; promised >= enough && !killed {
			do()
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it says "killed"
	if !killed {
		t.Fatalf("the child ended by itself after %d rows", promised)
	}
	return promised
}

// TestKill ends writers with SIGKILL: every row that was promised is there, and each is there once.
func TestKill(t *testing.T) {
	s := newStore(t)
	promised := int64(0)
	for round := range 4 {
		promised = child(t, s.c.Path, promised+int64(20+37*round), func() {})
		got := s.lines("SELECT count(*), count(DISTINCT a), min(a), max(a) + 1 FROM shop.pair")[0]
		var n, different, first, next int64
		if _, err := fmt.Sscanf(got, "%d|%d|%d|%d", &n, &different, &first, &next); err != nil {
			t.Fatal(err)
		}
		if n < promised || n != different || first != 0 || next != n {
			t.Fatalf("round %d: %s, and %d were promised", round, got, promised)
		}
		promised = n
	}
	if got := s.lines(`SELECT CAST(position AS VARCHAR) FROM main._trunkline_offsets WHERE stream = 'shop.pair/0'`)[0]; got != strconv.FormatInt(promised, 10) {
		t.Errorf("position %s with %d rows", got, promised)
	}
}
