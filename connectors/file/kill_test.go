package file

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// childEnv makes the test binary a writer that is killed; formatEnv is what it writes.
const (
	childEnv  = "TRUNKLINE_TEST_FILE_SINK"
	formatEnv = "TRUNKLINE_TEST_FILE_FORMAT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := writeForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForever goes on where the directory ends and prints each position that is durable.
func writeForever(dir string) error {
	ctx := context.Background()
	s, err := open(ctx, settings(dir, rowfile.Format(os.Getenv(formatEnv)), 1<<16), connectors.NewEnv("archive"))
	if err != nil {
		return err
	}
	p, err := s.(connectors.Transactional).Committed(ctx, "shop/0")
	if err != nil {
		return err
	}
	next := int64(0)
	if p != nil {
		if next, err = strconv.ParseInt(string(p), 10, 64); err != nil {
			return err
		}
	}
	for {
		n := next%7 + 1
		if err := s.Write(ctx, batchOf(rowsFrom(next, n))); err != nil {
			return err
		}
		next += n
		fmt.Println(next)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("every row that was promised is there once", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		promised := int64(0)
		for round := range 8 {
			promised = writeAndKill(t, root, JSONL, promised+int64(20+37*round))
			got := ids(t, root)
			if int64(len(got)) < promised {
				t.Fatalf("round %d: %d rows, %d were promised", round, len(got), promised)
			}
			wantSequence(t, got, int64(len(got)))
		}
		s := openSink(t, root, JSONL)
		if n := int64(len(ids(t, root))); committed(t, s) != strconv.FormatInt(n, 10) {
			t.Errorf("position %s with %d rows", committed(t, s), n)
		}
	})
}

// TestKillParquet ends writers of Parquet with SIGKILL. Under a final name is no file without its footer, whoever looks;
// the ranges of offsets do not overlap, and each row that was promised is there once.
func TestKillParquet(t *testing.T) {
	t.Parallel()
	db := duck.Start(t, "../..")
	root := t.TempDir()
	promised := int64(0)
	for round := range 3 {
		promised = writeAndKill(t, root, Parquet, promised+int64(10+60*round))
		whole := 0
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if _, ok := parseName(d.Name()); err != nil || !ok {
				return err
			}
			whole++
			b, err := os.ReadFile(path)
			if err == nil && (!bytes.HasPrefix(b, []byte("PAR1")) || !bytes.HasSuffix(b, []byte("PAR1"))) {
				t.Errorf("%s has no footer", d.Name())
			}
			return err
		})
		if err != nil || whole == 0 {
			t.Fatalf("%d files: %v", whole, err)
		}
		var got []int64
		for _, e := range entries(t, db, settings(root, Parquet, 0), item) {
			got = append(got, e.Offset)
		}
		if int64(len(got)) < promised {
			t.Fatalf("round %d: %d rows, %d were promised", round, len(got), promised)
		}
		wantSequence(t, got, int64(len(got)))
	}
}

// writeAndKill lets a child write until it has promised enough, kills it in the middle of what comes next, and returns
// what it had promised.
func writeAndKill(t *testing.T, root string, format rowfile.Format, enough int64) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+root, formatEnv+"="+string(format))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	promised := int64(0)
	lines := bufio.NewScanner(out)
	killed := false
	for lines.Scan() {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			break // the last line may be cut
		}
		promised = n
		if promised >= enough && !killed {
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
