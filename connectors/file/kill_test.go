package file

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

func TestMain(m *testing.M) {
	conformance.RunVictim(openVictim)
	os.Exit(m.Run())
}

// openVictim opens a sink that writes to a folder in a format.
func openVictim(ctx context.Context, args []string) (conformance.Promiser, error) {
	s, err := open(ctx, settings(args[0], rowfile.Format(args[1]), 1<<16), connectors.NewEnv("archive"))
	return conformance.Promiser{Sink: s, Stream: "shop/0",
		Batch: func(first, count int64) connectors.Batch { return batchOf(rowsFrom(first, count)) }}, err
}

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("every row that was promised is there once", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		promised := int64(0)
		for round := range 8 {
			promised = conformance.KillVictim(t, promised+int64(20+37*round), nil, root, string(JSONL))
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
		promised = conformance.KillVictim(t, promised+int64(10+60*round), nil, root, string(Parquet))
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
