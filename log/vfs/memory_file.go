package vfs

import (
	"io"
	"io/fs"
	"slices"
	"time"
)

// memoryFile is one open handle. It outlives a rename or removal of its name, as on Unix.
type memoryFile struct {
	name     string
	node     *inode
	readOnly bool
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	if off < 0 {
		return 0, pathError(OpRead, f.name, fs.ErrInvalid)
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) WriteAt(p []byte, off int64) (int, error) {
	if f.readOnly || off < 0 {
		return 0, pathError(OpWrite, f.name, fs.ErrPermission)
	}
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.grow(int(off) + len(p))
	copy(n.data[off:], p)
	n.touch(int(off), int(off)+len(p))
	return len(p), nil
}

func (n *inode) grow(size int) {
	if more := size - len(n.data); more > 0 {
		old := len(n.data)
		n.data = slices.Grow(n.data, more)[:size]
		clear(n.data[old:])
		n.touch(old, size)
	}
}

func (n *inode) touch(from, to int) {
	n.modified = time.Now()
	for b := from / block; b*block < to; b++ {
		n.dirty[b] = true
	}
}

func (f *memoryFile) Truncate(size int64) error {
	if f.readOnly || size < 0 {
		return pathError(OpTruncate, f.name, fs.ErrPermission)
	}
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.grow(int(size))
	n.data = n.data[:size]
	n.modified = time.Now()
	return nil
}

func (f *memoryFile) Sync() error {
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	old := len(n.synced)
	n.synced = slices.Grow(n.synced[:min(old, len(n.data))], max(0, len(n.data)-old))[:len(n.data)]
	for b := range n.dirty {
		if from := b * block; from < len(n.data) {
			copy(n.synced[from:min(from+block, len(n.data))], n.data[from:])
		}
	}
	clear(n.dirty)
	return nil
}

func (f *memoryFile) Size() (int64, error) {
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return int64(len(f.node.data)), nil
}

func (f *memoryFile) Close() error { return nil }
