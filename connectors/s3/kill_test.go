package s3

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// childEnv makes the test binary a writer into the store it names, which is killed.
const childEnv = "TRUNKLINE_TEST_S3_SINK"

// writeForever goes on where the bucket ends and prints each position that is durable.
func writeForever(endpoint, bucket string) error {
	ctx := context.Background()
	c, err := newConfig(endpoint, rowfile.Parquet, bucket)
	if err != nil {
		return err
	}
	s, err := open(ctx, c, connectors.NewEnv("lake"))
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
		if err := s.Write(ctx, batch(next, n)); err != nil {
			return err
		}
		next += n
		fmt.Println(next)
	}
}

// TestKill ends writers with SIGKILL. No object is without its footer, no two objects have a row in common, although each
// writer begins with what the one before it was not told of, and each row that was promised is there once.
func TestKill(t *testing.T) {
	db := duck.Start(t, "../..")
	s := startStore(t)
	bucket := s.bucket(t)
	c := s.config(t, rowfile.Parquet, bucket)
	promised := int64(0)
	for round := range 3 {
		promised = writeAndKill(t, s.endpoint, bucket, promised+int64(10+60*round))
		for _, name := range s.objects(t, bucket) {
			if b := s.get(t, bucket, name); !bytes.HasPrefix(b, []byte("PAR1")) || !bytes.HasSuffix(b, []byte("PAR1")) {
				t.Errorf("%s has no footer", name)
			}
		}
		entries := s.entries(t, db, c, item)
		for i, e := range entries {
			if e.Offset != int64(i) {
				t.Fatalf("round %d: row %d has offset %d", round, i, e.Offset)
			}
		}
		if int64(len(entries)) < promised {
			t.Fatalf("round %d: %d rows, %d were promised", round, len(entries), promised)
		}
	}
}

// writeAndKill lets a child write until it has promised enough, kills it in the middle of what comes next, and returns
// what it had promised.
func writeAndKill(t *testing.T, endpoint, bucket string, enough int64) (promised int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], bucket)
	cmd.Env = append(os.Environ(), childEnv+"="+endpoint)
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
