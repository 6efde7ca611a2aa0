package s3

import (
	"bytes"
	"context"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// openVictim opens a sink that writes to a bucket of the store at an address.
func openVictim(ctx context.Context, args []string) (p conformance.Promiser, err error) {
	c, err := newConfig(args[0], rowfile.Parquet, args[1])
	if err != nil {
		return p, err
	}
	p = conformance.Promiser{Stream: "shop/0", Batch: batch}
	p.Sink, err = open(ctx, c, connectors.NewEnv("lake"))
	return p, err
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
		promised = conformance.KillVictim(t, promised+int64(10+60*round), nil, s.endpoint, bucket)
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
