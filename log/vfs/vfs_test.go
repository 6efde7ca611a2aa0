package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// kinds are the file systems that must act alike, each with a directory to work in.
func kinds(t *testing.T) map[string]struct {
	FS
	dir string
} {
	return map[string]struct {
		FS
		dir string
	}{
		"os":     {OS{}, t.TempDir()},
		"memory": {NewMemory(), "root"},
		"faults": {NewFaults(NewMemory()), "root"},
	}
}

func write(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	b, err := ReadFile(fsys, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAllFileSystemsActAlike(t *testing.T) {
	t.Parallel()
	for kind, k := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(k.dir, "a", "b")
			name := filepath.Join(dir, "one")
			if _, err := k.Open(name, os.O_RDWR|os.O_CREATE); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("open in a missing directory: %v", err)
			}
			if err := errors.Join(k.Mkdir(dir), k.Mkdir(dir)); err != nil {
				t.Fatal(err)
			}
			f := write(t, k, name, "0123456789")
			if _, err := k.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL); !errors.Is(err, fs.ErrExist) {
				t.Fatalf("exclusive open: %v", err)
			}
			if err := errors.Join(f.Truncate(4), f.Sync(), f.Truncate(6)); err != nil {
				t.Fatal(err)
			}
			if got := content(t, k, name); got != "0123\x00\x00" {
				t.Fatalf("%q", got)
			}
			b := make([]byte, 10)
			if n, err := f.ReadAt(b, 2); n != 4 || err == nil {
				t.Fatalf("read %d bytes, %v", n, err)
			}
			if err := errors.Join(k.Rename(name, filepath.Join(dir, "two")), k.SyncDir(dir), WriteFile(k, filepath.Join(dir, "three"), []byte("3"))); err != nil {
				t.Fatal(err)
			}
			if names, err := k.List(dir); err != nil || !slices.Equal(names, []string{"three", "two"}) {
				t.Fatalf("%v %v", names, err)
			}
			if info, err := k.Stat(filepath.Join(dir, "two")); err != nil || info.Size != 6 || info.Dir || info.Modified.IsZero() {
				t.Fatalf("%+v %v", info, err)
			}
			if err := k.Remove(dir); err == nil {
				t.Fatal("removed a directory that is not empty")
			}
			if err := errors.Join(RemoveAll(k, filepath.Join(k.dir, "a")), RemoveAll(k, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("stat: %v", err)
			}
			if _, err := ReadFile(k, name, 10); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("read: %v", err)
			}
			checkLock(t, k, filepath.Join(k.dir, ".lock"))
		})
	}
}

func checkLock(t *testing.T, k FS, name string) {
	t.Helper()
	for range 2 {
		l, err := k.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Lock(name); !errors.Is(err, ErrLocked) {
			t.Fatalf("second lock: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPowerCutLosesWhatWasNotSynced(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	if err := m.Mkdir("d"); err != nil {
		t.Fatal(err)
	}
	f := write(t, m, "d/file", "synced")
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, m.Crash(0, nil), "d/file"); got != "missing" {
		t.Fatalf("the name was not synced, and the file holds %q", got)
	}
	if err := m.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("LOST and more"), 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Rename("d/file", "d/moved"); err != nil {
		t.Fatal(err)
	}
	after := m.Crash(0, nil)
	if a, b := content(t, after, "d/file"), content(t, after, "d/moved"); a != "synced" || b != "missing" {
		t.Fatalf("%q %q", a, b)
	}
	after = m.Crash(1, rand.New(rand.NewPCG(1, 1)))
	if a, b := content(t, after, "d/file"), content(t, after, "d/moved"); a != "missing" || b != "LOST and more" {
		t.Fatalf("%q %q", a, b)
	}
	if err := m.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	if a := content(t, m.Crash(0, nil), "d/moved"); a != "synced" {
		t.Fatalf("%q", a)
	}
	if a := content(t, m, "d/moved"); a != "LOST and more" {
		t.Fatalf("the crash changed the original: %q", a)
	}
}

func TestPowerCutKeepsAnyBlocks(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	f := write(t, m, "f", string(bytes.Repeat([]byte("a"), 10*block)))
	if err := errors.Join(f.Sync(), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte("b"), 20*block), 0); err != nil {
		t.Fatal(err)
	}
	kept, lost, holes := 0, 0, 0
	for seed := range uint64(20) {
		got := content(t, m.Crash(0.5, rand.New(rand.NewPCG(seed, 0))), "f")
		for i := 0; i < len(got); i += block {
			switch b := got[i : i+block]; {
			case b == string(bytes.Repeat([]byte("b"), block)):
				kept++
			case b == string(bytes.Repeat([]byte("a"), block)) && i < 10*block:
				lost++
			case b == string(make([]byte, block)) && i >= 10*block:
				holes++
			default:
				t.Fatalf("block %d is neither old nor new", i/block)
			}
		}
	}
	if kept == 0 || lost == 0 || holes == 0 {
		t.Fatalf("%d kept, %d lost, %d holes", kept, lost, holes)
	}
}

func TestWriteFileLeavesOldOrNew(t *testing.T) {
	t.Parallel()
	for nth := 1; nth <= 6; nth++ {
		for seed := range uint64(10) {
			m := NewMemory()
			if err := WriteFile(m, "f", []byte("old")); err != nil {
				t.Fatal(err)
			}
			f := NewFaults(m, Rule{Nth: nth})
			err := WriteFile(f, "f", []byte("newer"))
			got := content(t, m.Crash(float64(seed)/9, rand.New(rand.NewPCG(seed, 0))), "f")
			if got != "newer" && (got != "old" || err == nil) {
				t.Fatalf("call %d failed (%v): %q", nth, err, got)
			}
		}
	}
}

func TestRulesFailTheCallsTheyName(t *testing.T) {
	t.Parallel()
	f := NewFaults(NewMemory(), Rule{Op: OpWrite, Path: "*.log", Nth: 2, Times: 1, Short: 3}, Rule{Op: OpSync, Err: syscall.ENOSPC})
	file := write(t, f, "a.log", "first")
	n, err := file.WriteAt([]byte("second"), 5)
	if n != 3 || !errors.Is(err, syscall.EIO) {
		t.Fatalf("%d %v", n, err)
	}
	if got := content(t, f, "a.log"); got != "firstsec" {
		t.Fatalf("%q", got)
	}
	if _, err := file.WriteAt([]byte("third"), 5); err != nil {
		t.Fatal(err)
	}
	write(t, f, "other", "is not named")
	if err := file.Sync(); !IsFull(err) {
		t.Fatal(err)
	}
	if f.Count(OpWrite) != 4 || f.Count(OpSync) != 1 {
		t.Fatalf("%d writes, %d syncs", f.Count(OpWrite), f.Count(OpSync))
	}
}

func TestRoomIsUsedUpAndGivenBack(t *testing.T) {
	t.Parallel()
	f := NewFaults(NewMemory())
	f.SetRoom(10)
	file := write(t, f, "a", "12345678")
	if n, err := file.WriteAt([]byte("90abc"), 8); n != 2 || !IsFull(err) {
		t.Fatalf("%d %v", n, err)
	}
	if n, err := file.WriteAt([]byte("over"), 2); n != 4 || err != nil {
		t.Fatalf("overwriting needs no room: %d %v", n, err)
	}
	if err := file.Truncate(7); err != nil {
		t.Fatal(err)
	}
	b := write(t, f, "b", "abc")
	if _, err := b.WriteAt([]byte("d"), 3); !IsFull(err) {
		t.Fatal(err)
	}
	if err := f.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.WriteAt([]byte("defghij"), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := b.WriteAt([]byte("k"), 10); !IsFull(err) {
		t.Fatal(err)
	}
	f.SetRoom(-1)
	if _, err := b.WriteAt([]byte("k"), 10); err != nil {
		t.Fatal(err)
	}
}
