package vfs

import (
	"io"
	"path/filepath"
	"sync"
	"syscall"
)

// Rule makes calls fail. The zero Op matches every call, the zero Path every file.
type Rule struct {
	Op    Op
	Path  string // pattern of filepath.Match for the base name, as *.log
	Nth   int    // the first matching call that fails, from 1; default 1
	Times int    // how many fail from there on; 0: all
	Short int    // a failing write stores this many bytes first
	Err   error  // default EIO

	seen int
}

// Faults wraps a file system and makes chosen calls fail. Rules and room may change while it is in use.
type Faults struct {
	FS
	mu      sync.Mutex
	rules   []*Rule
	limited bool
	room    int64
	counts  map[Op]int
}

// NewFaults wraps fsys; without rules it changes nothing.
func NewFaults(fsys FS, rules ...Rule) *Faults {
	f := &Faults{FS: fsys, counts: map[Op]int{}}
	f.SetRules(rules...)
	return f
}

// SetRules replaces the rules; their counts begin anew.
func (f *Faults) SetRules(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = f.rules[:0]
	for _, r := range rules {
		f.rules = append(f.rules, &r)
	}
}

// SetRoom lets files grow by that many bytes more, then writes fail with ENOSPC after storing what fits. Truncating and
// removing files gives room back. A negative number ends the limit.
func (f *Faults) SetRoom(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited, f.room = bytes >= 0, bytes
}

// Count returns how many calls of an operation were made, failed ones too.
func (f *Faults) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

func (f *Faults) check(op Op, name string) (short int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op]++
	for _, r := range f.rules {
		if r.Op != "" && r.Op != op {
			continue
		}
		if ok, _ := filepath.Match(r.Path, filepath.Base(name)); !ok && r.Path != "" {
			continue
		}
		r.seen++
		first := max(r.Nth, 1)
		if r.seen < first || r.Times > 0 && r.seen >= first+r.Times {
			continue
		}
		if r.Err != nil {
			return r.Short, pathError(op, name, r.Err)
		}
		return r.Short, pathError(op, name, syscall.EIO)
	}
	return 0, nil
}

// take returns how much of n more bytes there is room for.
func (f *Faults) take(n int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limited {
		if n > 0 {
			n = min(n, f.room)
		}
		f.room -= n
	}
	return n
}

// Open opens a file whose calls follow the rules too.
func (f *Faults) Open(name string, flag int) (File, error) {
	if _, err := f.check(OpOpen, name); err != nil {
		return nil, err
	}
	if flag&truncate != 0 {
		if info, err := f.FS.Stat(name); err == nil {
			f.take(-info.Size)
		}
	}
	file, err := f.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, name: name, faults: f}, nil
}

// Stat describes a file or directory.
func (f *Faults) Stat(name string) (Info, error) {
	if _, err := f.check(OpStat, name); err != nil {
		return Info{}, err
	}
	return f.FS.Stat(name)
}

// List returns the names in a directory, sorted.
func (f *Faults) List(dir string) ([]string, error) {
	if _, err := f.check(OpList, dir); err != nil {
		return nil, err
	}
	return f.FS.List(dir)
}

// Mkdir makes a directory and its missing parents.
func (f *Faults) Mkdir(dir string) error {
	if _, err := f.check(OpMkdir, dir); err != nil {
		return err
	}
	return f.FS.Mkdir(dir)
}

// Rename moves a file over another; rules see the new name.
func (f *Faults) Rename(from, to string) error {
	if _, err := f.check(OpRename, to); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

// Remove removes a file or an empty directory.
func (f *Faults) Remove(name string) error {
	if _, err := f.check(OpRemove, name); err != nil {
		return err
	}
	info, statErr := f.FS.Stat(name)
	err := f.FS.Remove(name)
	if err == nil && statErr == nil && !info.Dir {
		f.take(-info.Size)
	}
	return err
}

// SyncDir makes the names in a directory durable.
func (f *Faults) SyncDir(dir string) error {
	if _, err := f.check(OpSyncDir, dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

// Lock takes a lock file.
func (f *Faults) Lock(name string) (io.Closer, error) {
	if _, err := f.check(OpLock, name); err != nil {
		return nil, err
	}
	return f.FS.Lock(name)
}

type faultyFile struct {
	File
	name   string
	faults *Faults
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.faults.check(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	short, err := f.faults.check(OpWrite, f.name)
	if err != nil {
		n, _ := f.File.WriteAt(p[:min(short, len(p))], off)
		return n, err
	}
	size, err := f.File.Size()
	if err != nil {
		return 0, err
	}
	more := off + int64(len(p)) - size
	if more <= 0 {
		return f.File.WriteAt(p, off)
	}
	if got := f.faults.take(more); got < more {
		n, _ := f.File.WriteAt(p[:max(0, int64(len(p))-(more-got))], off)
		return n, pathError(OpWrite, f.name, syscall.ENOSPC)
	}
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) Truncate(size int64) error {
	if _, err := f.faults.check(OpTruncate, f.name); err != nil {
		return err
	}
	old, err := f.File.Size()
	if err != nil {
		return err
	}
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	f.faults.take(size - old)
	return nil
}

func (f *faultyFile) Sync() error {
	if _, err := f.faults.check(OpSync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	_, err := f.faults.check(OpClose, f.name)
	if closeErr := f.File.Close(); err == nil {
		err = closeErr
	}
	return err
}
