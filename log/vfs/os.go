package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	readOnly  = os.O_RDONLY
	readWrite = os.O_RDWR
	create    = os.O_CREATE
	truncate  = os.O_TRUNC
)

// Files of the log may hold personal data: only the owner and the group read them.
const (
	fileMode = 0o640
	dirMode  = 0o750
)

// OS is the real file system. Its zero value is ready.
type OS struct{}

// Open opens a file.
func (OS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Stat describes a file or directory.
func (OS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: info.Size(), Modified: info.ModTime(), Dir: info.IsDir()}, nil
}

// List returns the names in a directory, sorted.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Mkdir makes a directory and its missing parents, all durable.
func (o OS) Mkdir(dir string) error {
	dir = filepath.Clean(dir)
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: string(OpMkdir), Path: dir, Err: fs.ErrExist}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.Mkdir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

// Rename moves a file over another.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove removes a file or an empty directory.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir makes the names in a directory durable.
func (OS) SyncDir(dir string) error { return syncDir(dir) }

// Lock takes an advisory lock that ends with the process.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: string(OpLock), Path: name, Err: err}
	}
	return osLock{f}, nil
}

// osLock gives the lock up by name before it closes the file: a child process that is just being started holds a copy
// of the descriptor for a moment, and the lock with it.
type osLock struct{ file *os.File }

func (l osLock) Close() error { return errors.Join(unlockFile(l.file), l.file.Close()) }

// osFile is an *os.File whose Sync leaves out what reading back does not need.
type osFile struct{ *os.File }

// Sync makes content and size durable.
func (f osFile) Sync() error { return syncData(f.File) }

// Size returns the length of the file.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
