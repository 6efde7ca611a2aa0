package codec_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/codec"
)

func openLog(t *testing.T) log.Log {
	t.Helper()
	l, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func table(column string) *connectors.Table {
	return &connectors.Table{Schema: "public", Name: "t", Key: []int{0}, Columns: []connectors.Column{{Name: column, Kind: connectors.Int}}}
}

func TestEqualSchemasShareAnID(t *testing.T) {
	t.Parallel()
	l := openLog(t)
	one, two := codec.NewSchemas(l), codec.NewSchemas(l)
	defer one.Close(t.Context())
	defer two.Close(t.Context())
	a, err := one.ID(t.Context(), table("a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*codec.Schemas{one, two} {
		if again, err := s.ID(t.Context(), table("a")); err != nil || again != a {
			t.Errorf("id %d, %v; want %d", again, err, a)
		}
	}
	b, err := two.ID(t.Context(), table("b"))
	if err != nil || b == a {
		t.Fatalf("id %d, %v", b, err)
	}
	first, err := one.Table(t.Context(), b)
	if err != nil || !first.Equal(table("b")) {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := one.Table(t.Context(), b); err != nil || again != first {
		t.Errorf("another pointer for the same version, %v", err)
	}
	var refused *codec.RecordError
	if _, err := one.Table(t.Context(), b+100); !errors.As(err, &refused) {
		t.Errorf("an id that is not there: %v", err)
	}
	topic, err := l.Topic(t.Context(), codec.SchemasTopic)
	if err != nil || len(topic.Partitions) != 1 || !topic.Config.Compact || topic.Config.Retention != log.Forever {
		t.Errorf("topic %+v, %v", topic, err)
	}
}

func TestVersionsOfATableHaveAnOrder(t *testing.T) {
	t.Parallel()
	l := openLog(t)
	s := codec.NewSchemas(l)
	defer s.Close(t.Context())
	last := int64(-1)
	for _, column := range []string{"a", "b", "a"} {
		id, err := s.ID(t.Context(), table(column))
		if err != nil || id <= last {
			t.Fatalf("id %d of %s after %d, %v", id, column, last, err)
		}
		last = id
	}
	other := table("b")
	other.Name = "another table"
	if _, err := s.ID(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	again := codec.NewSchemas(l)
	defer again.Close(t.Context())
	if id, err := again.ID(t.Context(), table("a")); err != nil || id != last {
		t.Errorf("id %d after a restart, want %d, %v", id, last, err)
	}
}

func TestSchemasMayBeAskedByManyAtOnce(t *testing.T) {
	t.Parallel()
	s := codec.NewSchemas(openLog(t))
	defer s.Close(t.Context())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, name := range []string{"a", "b", "c"} {
				id, err := s.ID(t.Context(), table(name))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := s.Table(t.Context(), id); err != nil || !got.Equal(table(name)) {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	group.Wait()
}

func TestMalformedSchemaIsRefusedAlone(t *testing.T) {
	t.Parallel()
	l := openLog(t)
	s := codec.NewSchemas(l)
	defer s.Close(t.Context())
	if _, err := s.ID(t.Context(), table("a")); err != nil {
		t.Fatal(err)
	}
	bad, err := l.Append(t.Context(), log.TopicPartition{Topic: codec.SchemasTopic}, log.Record{Key: []byte("k"), Value: []byte("{")})
	if err != nil {
		t.Fatal(err)
	}
	good, err := codec.NewSchemas(l).ID(t.Context(), table("b"))
	if err != nil {
		t.Fatal(err)
	}
	var refused *codec.RecordError
	if _, err := s.Table(t.Context(), bad); !errors.As(err, &refused) {
		t.Errorf("malformed: %v", err)
	}
	if _, err := s.Table(t.Context(), good); err != nil {
		t.Error(err)
	}
}
