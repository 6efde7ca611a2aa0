package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/localprocess"
	"github.com/trunkline/trunkline/connectors/rowfile"
	"github.com/trunkline/trunkline/connectors/s3/localserver"
)

// serveEnv makes the test binary a store, so that its goroutines are not counted as those of a sink.
const serveEnv = "TRUNKLINE_TEST_S3"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], localserver.Handler()))
		os.Exit(1)
	}
	conformance.RunVictim(openVictim)
	os.Exit(m.Run())
}

// store is a running store with a client of its own.
type store struct {
	endpoint string
	client   *minio.Client
	buckets  atomic.Int64
}

func startStore(t *testing.T) *store {
	t.Helper()
	p := localprocess.Start(t, localprocess.Server{
		Program: os.Args[0], Missing: "it is the test itself", Env: []string{serveEnv + "=1"},
		Args: func(_ string, ports []int) ([]string, error) {
			return []string{"127.0.0.1:" + strconv.Itoa(ports[0])}, nil
		},
		Ready: func(ctx context.Context, address string) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			return answer.Body.Close()
		},
	})
	s := &store{endpoint: "http://" + p.Address}
	c := s.config(t, rowfile.JSONL, "any")
	var transport *http.Transport
	var err error
	if s.client, transport, err = connect(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	http.DefaultClient.CloseIdleConnections()
	return s
}

func (s *store) config(t *testing.T, format rowfile.Format, bucket string) *Config {
	t.Helper()
	c, err := newConfig(s.endpoint, format, bucket)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newConfig(endpoint string, format rowfile.Format, bucket string) (*Config, error) {
	c := &Config{
		Endpoint: endpoint, Region: "us-east-1", Bucket: bucket, Prefix: "lake",
		AccessKey: localserver.AccessKey, SecretKey: localserver.SecretKey, Settings: rowfile.Settings{Format: format},
	}
	return c, c.Validate()
}

// bucket makes an empty bucket.
func (s *store) bucket(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", s.buckets.Add(1))
	if err := s.client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// objects returns the names of all objects with rows, in the order of a partition's offsets.
func (s *store) objects(t *testing.T, bucket string) []string {
	t.Helper()
	var names []string
	for o := range s.client.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if _, ok := parseName(o.Key); ok {
			names = append(names, o.Key)
		}
	}
	return names
}

func (s *store) get(t *testing.T, bucket, name string) []byte {
	t.Helper()
	o, err := s.client.GetObject(t.Context(), bucket, name, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	b, err := io.ReadAll(o)
	if err != nil {
		t.Fatalf("get %s: %v", name, err)
	}
	return b
}

func (s *store) entries(t *testing.T, db *duck.DB, c *Config, table *connectors.Table) []conformance.Entry {
	t.Helper()
	var out []conformance.Entry
	for i, name := range s.objects(t, c.Bucket) {
		b := s.get(t, c.Bucket, name)
		if c.Format == rowfile.Parquet {
			path := filepath.Join(t.TempDir(), strconv.Itoa(i)+".parquet")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			out = append(out, db.Entries(t, path, table)...)
			continue
		}
		r, err := rowfile.Decompress(bytes.NewReader(b), c.Compression)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if e, ok := conformance.ParseLine(t, line, table); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

func TestConformance(t *testing.T) {
	db := duck.Start(t, "../..")
	s := startStore(t)
	for _, settings := range []rowfile.Settings{{Format: rowfile.Parquet}, {Format: rowfile.JSONL, Compression: rowfile.Zstd}} {
		t.Run(string(settings.Format), func(t *testing.T) {
			conformance.RunSink(t, conformance.SinkCase{Late: true, New: func(t *testing.T) conformance.SinkSystem {
				c := s.config(t, settings.Format, s.bucket(t))
				c.Compression = settings.Compression
				if err := c.Validate(); err != nil {
					t.Fatal(err)
				}
				return conformance.SinkSystem{
					Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) { return open(ctx, c, env) },
					Log:  func(t *testing.T, table *connectors.Table) []conformance.Entry { return s.entries(t, db, c, table) },
				}
			}})
		})
	}
}

var item = &connectors.Table{
	Schema: "main", Name: "item", Key: []int{0},
	Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}},
}

// batch makes inserts at offsets from first, an hour apart from 2026-01-30 20:00.
func batch(first, n int64) connectors.Batch {
	var changes []connectors.Change
	for id := first; id < first+n; id++ {
		changes = append(changes, connectors.Change{
			Op: connectors.Insert, Table: item, Offset: id, After: []connectors.Value{connectors.IntValue(id)},
			Time: time.Date(2026, 1, 30, 20, 0, 0, 0, time.UTC).Add(time.Duration(id) * time.Hour),
		})
	}
	return connectors.Batch{Stream: "shop/0", Changes: changes, Position: strconv.AppendInt(nil, first+n, 10)}
}

func openOn(t *testing.T, c *Config, group string) *sink {
	t.Helper()
	s, err := open(t.Context(), c, connectors.NewEnv(group))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s.(*sink)
}

func TestChain(t *testing.T) {
	s := startStore(t)

	t.Run("objects are named for the day and the first offset", func(t *testing.T) {
		c := s.config(t, rowfile.Parquet, s.bucket(t))
		w := openOn(t, c, "lake")
		for range 2 { // the second time it is there
			if err := w.Write(t.Context(), batch(0, 6)); err != nil {
				t.Fatal(err)
			}
		}
		want := "lake/topic=shop/partition=0/date=2026-01-30/00000000000000000000.parquet lake/topic=shop/partition=0/date=2026-01-31/00000000000000000004.parquet"
		if got := strings.Join(s.objects(t, c.Bucket), " "); got != want {
			t.Errorf("objects %s, want %s", got, want)
		}
	})

	t.Run("a link that is there is not replaced", func(t *testing.T) {
		c := s.config(t, rowfile.JSONL, s.bucket(t))
		slow, fast := openOn(t, c, "lake"), openOn(t, c, "lake")
		if err := slow.Write(t.Context(), batch(0, 2)); err != nil {
			t.Fatal(err)
		}
		// Both stand at offset 2: the slow one has looked whether the partition is its own, and puts only now.
		p := slow.partitions["shop/0"]
		if _, err := fast.Committed(t.Context(), "shop/0"); err != nil {
			t.Fatal(err)
		}
		if err := fast.Write(t.Context(), batch(2, 1)); err != nil {
			t.Fatal(err)
		}
		if err := slow.add(t.Context(), p, "shop/0", batch(2, 2).Changes, 4); !errors.Is(err, connectors.ErrFenced) {
			t.Errorf("add: %v, want ErrFenced", err)
		}
		if got, err := fast.Committed(t.Context(), "shop/0"); string(got) != "3" || err != nil {
			t.Errorf("position %s, %v; want 3", got, err)
		}
	})

	t.Run("a put that was answered too late is found when it comes again", func(t *testing.T) {
		c := s.config(t, rowfile.JSONL, s.bucket(t))
		w := openOn(t, c, "lake")
		if _, err := w.Committed(t.Context(), "shop/0"); err != nil {
			t.Fatal(err)
		}
		if err := w.put(t.Context(), w.partitions["shop/0"], w.partitions["shop/0"].object("2026-01-30", 0, "jsonl"), []byte("x\n"), 3); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), batch(0, 5)); err == nil || errors.Is(err, connectors.ErrFenced) {
			t.Errorf("write: %v, want an error that is tried again", err)
		}
		if err := w.Write(t.Context(), batch(0, 5)); err != nil {
			t.Fatal(err)
		}
		names := s.objects(t, c.Bucket)
		if len(names) != 3 || !strings.HasSuffix(names[1], "/00000000000000000003.jsonl") {
			t.Errorf("objects %v, want links at 0, 3 and 4", names)
		}
	})

	t.Run("another group is told to take another prefix", func(t *testing.T) {
		c := s.config(t, rowfile.JSONL, s.bucket(t))
		if err := openOn(t, c, "lake").Write(t.Context(), batch(0, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := openOn(t, c, "other").Committed(t.Context(), "shop/0"); !errors.Is(err, connectors.ErrFatal) {
			t.Errorf("committed: %v, want ErrFatal", err)
		}
	})

	t.Run("a position before the last object is refused", func(t *testing.T) {
		c := s.config(t, rowfile.JSONL, s.bucket(t))
		w := openOn(t, c, "lake")
		if err := w.Write(t.Context(), batch(0, 5)); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), connectors.Batch{Stream: "shop/0", Position: connectors.Position("3")}); !errors.Is(err, connectors.ErrFatal) {
			t.Errorf("write: %v, want ErrFatal", err)
		}
	})
}
