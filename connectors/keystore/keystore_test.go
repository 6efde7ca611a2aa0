package keystore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
)

func TestASetIsThereAfterItsProcess(t *testing.T) {
	t.Parallel()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "keys?.db")
	s, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	set, other := NewSet(), NewSet()
	var keys []string
	for i := range 3000 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	for _, err := range []error{s.Add(ctx, set, keys), s.Add(ctx, set, keys[:10]), s.Remove(ctx, set, keys[100:200]), s.Complete(ctx, set), s.Add(ctx, other, keys)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(ctx, path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if has, err := s.Has(ctx, set); !has || err != nil {
		t.Fatalf("the set is gone: %v", err)
	}
	if has, _ := s.Has(ctx, other); has {
		t.Fatal("a set that was not finished counts as complete")
	}
	sums, err := s.Sums(ctx, set)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]Sum{}
	for i, key := range keys {
		if i >= 100 && i < 200 {
			continue
		}
		bucket, sum := Digest(key)
		want[bucket] = Sum{want[bucket].Count + 1, want[bucket].Sum + sum}
	}
	total := 0
	for bucket, sum := range want {
		if sums[bucket] != sum {
			t.Fatalf("bucket %d is %+v, want %+v", bucket, sums[bucket], sum)
		}
		in, err := s.Keys(ctx, set, bucket)
		if err != nil {
			t.Fatal(err)
		}
		total += len(in)
	}
	if len(sums) != len(want) || total != 2900 {
		t.Fatalf("%d buckets, %d keys", len(sums), total)
	}
	if err := s.Drop(ctx, other); err != nil {
		t.Fatal(err)
	}
	if has, _ := s.Has(ctx, set); has {
		t.Fatal("a dropped set is there")
	}
}
