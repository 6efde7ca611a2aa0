// Package vfs is the seam between the log and the disk.
//
// It promises three file systems behind one small interface: OS, the real one; Memory, which can lose power and then
// keeps only what was synced; and Faults, which wraps another and makes chosen calls fail. It promises nothing about
// what stands in a file. The packages of the log are the only callers, and they reach the disk in no other way, so that
// every crash and every disk error can be played in a test.
//
// Concurrency: an FS may be used from many goroutines. A File allows ReadAt beside any other call, and Sync beside
// WriteAt; WriteAt and Truncate belong to one goroutine at a time.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// ErrLocked says that another holder, in this process or another, has the lock.
var ErrLocked = errors.New("locked by another process")

// Op names a call that reaches the disk; rules of Faults are written with it.
type Op string

// The first eight are methods of FS, the rest methods of File.
const (
	OpOpen     Op = "open"
	OpStat     Op = "stat"
	OpList     Op = "list"
	OpMkdir    Op = "mkdir"
	OpRename   Op = "rename"
	OpRemove   Op = "remove"
	OpSyncDir  Op = "sync directory"
	OpLock     Op = "lock"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpSync     Op = "sync"
	OpClose    Op = "close"
)

// Info is what Stat tells.
type Info struct {
	Size     int64
	Modified time.Time
	Dir      bool
}

// FS is a file system. A missing file is fs.ErrNotExist.
type FS interface {
	// Open takes the flags of os.OpenFile: os.O_RDONLY or os.O_RDWR, with os.O_CREATE, os.O_EXCL and os.O_TRUNC.
	// The name of a new file is durable after SyncDir of its directory.
	Open(name string, flag int) (File, error)
	Stat(name string) (Info, error)
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Mkdir makes a directory and its missing parents, and returns once all of them are durable. An existing one is no error.
	Mkdir(dir string) error
	// Rename replaces to. It is atomic at once and durable after SyncDir.
	Rename(from, to string) error
	// Remove removes a file or an empty directory; durable after SyncDir.
	Remove(name string) error
	// SyncDir makes the creations, renames and removals in a directory durable.
	SyncDir(dir string) error
	// Lock takes a lock file for as long as the closer is open and the process lives, or fails with ErrLocked.
	Lock(name string) (io.Closer, error)
}

// File is an open file without a position of its own.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	// Sync makes content and size durable. After an error nothing is known about what was written since the last good
	// one, and a later success says nothing about it: the caller must read back what it needs.
	Sync() error
	Size() (int64, error)
}

// IsFull reports whether the error says that the disk, or the quota, is used up.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

// ReadFile returns a file of at most limit bytes.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name, readOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("read %s: %d bytes are over the limit of %d", name, size, limit)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

// WriteFile replaces a file by way of name+".tmp", and returns once the new content stands durable under the name. A
// crash leaves the old or the new content, and perhaps the temporary file.
func WriteFile(fsys FS, name string, b []byte) error {
	tmp := name + ".tmp"
	f, err := fsys.Open(tmp, readWrite|create|truncate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// RemoveAll removes a file, or a directory with all that is in it. A missing one is no error. The removal is durable
// after SyncDir of the parent.
func RemoveAll(fsys FS, name string) error {
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Dir {
		names, err := fsys.List(name)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := RemoveAll(fsys, filepath.Join(name, n)); err != nil {
				return err
			}
		}
	}
	return fsys.Remove(name)
}
