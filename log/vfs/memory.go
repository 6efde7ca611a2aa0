package vfs

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// block is the unit in which a power cut keeps or loses what was not synced. Disks promise no more than a sector.
const block = 512

// Memory is a file system in memory that can lose power. What a file holds beyond its last Sync, and what a directory
// holds beyond its last SyncDir, is not durable.
type Memory struct {
	mu      sync.Mutex
	names   map[string]*inode // by clean path, directories too
	durable map[string]*inode // what names are after a power cut
	pending []rename          // changes of names that are not durable yet, oldest first
	locks   map[string]bool
}

// rename is one atomic change of names: from disappears and to appears, each may be empty.
type rename struct {
	from, to string
	node     *inode
	inside   []rename // what a renamed directory carries along
}

type inode struct {
	mu       sync.RWMutex
	dir      bool
	data     []byte
	synced   []byte       // content at the last Sync
	dirty    map[int]bool // blocks of data written since
	modified time.Time
}

// NewMemory returns an empty file system.
func NewMemory() *Memory {
	return &Memory{names: map[string]*inode{}, durable: map[string]*inode{}, locks: map[string]bool{}}
}

// Crash returns the disk as a power cut at this moment would leave it, and goes on unharmed itself. Every 512-byte
// block and every change of name that was not synced survives with probability keep; 0 leaves only what was synced. A
// file that grew is as long as its last surviving block, with zeros where blocks were lost.
func (m *Memory) Crash(keep float64, rng *rand.Rand) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	lucky := func() bool { return keep > 0 && rng.Float64() < keep }
	names := maps.Clone(m.durable)
	for _, r := range m.pending {
		if lucky() {
			r.apply(names)
		}
	}
	after := NewMemory()
	copies := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node := names[name]
		if copies[node] == nil {
			copies[node] = node.crash(lucky)
		}
		after.names[name] = copies[node]
	}
	after.durable = maps.Clone(after.names)
	return after
}

func (r rename) apply(names map[string]*inode) {
	if r.from != "" {
		delete(names, r.from)
	}
	if r.to != "" {
		names[r.to] = r.node
	}
	for _, c := range r.inside {
		c.apply(names)
	}
}

func (n *inode) crash(lucky func() bool) *inode {
	n.mu.RLock()
	defer n.mu.RUnlock()
	data := slices.Clone(n.synced)
	if len(n.data) < len(data) && lucky() { // a Truncate that was not synced
		data = data[:len(n.data)]
	}
	for _, b := range slices.Sorted(maps.Keys(n.dirty)) {
		if !lucky() || b*block >= len(n.data) {
			continue
		}
		end := min((b+1)*block, len(n.data))
		if grow := end - len(data); grow > 0 {
			data = append(data, make([]byte, grow)...)
		}
		copy(data[b*block:end], n.data[b*block:end])
	}
	return &inode{dir: n.dir, data: data, synced: slices.Clone(data), dirty: map[int]bool{}, modified: n.modified}
}

// Open opens a file.
func (m *Memory) Open(name string, flag int) (File, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[name]
	switch {
	case node == nil && flag&os.O_CREATE == 0:
		return nil, pathError(OpOpen, name, fs.ErrNotExist)
	case node != nil && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathError(OpOpen, name, fs.ErrExist)
	case node != nil && node.dir:
		return nil, pathError(OpOpen, name, fs.ErrInvalid)
	case node == nil:
		if !m.isDir(filepath.Dir(name)) {
			return nil, pathError(OpOpen, name, fs.ErrNotExist)
		}
		node = &inode{dirty: map[int]bool{}, modified: time.Now()}
		m.change(rename{to: name, node: node})
	}
	f := &memoryFile{name: name, node: node, readOnly: flag&os.O_RDWR == 0}
	if flag&os.O_TRUNC != 0 {
		return f, f.Truncate(0)
	}
	return f, nil
}

// isDir treats the roots as made.
func (m *Memory) isDir(dir string) bool {
	if dir == "." || dir == filepath.Dir(dir) {
		return true
	}
	node := m.names[dir]
	return node != nil && node.dir
}

func (m *Memory) change(r rename) {
	r.apply(m.names)
	m.pending = append(m.pending, r)
}

// Stat describes a file or directory.
func (m *Memory) Stat(name string) (Info, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[name]
	if node == nil {
		if m.isDir(name) {
			return Info{Dir: true}, nil
		}
		return Info{}, pathError(OpStat, name, fs.ErrNotExist)
	}
	node.mu.RLock()
	defer node.mu.RUnlock()
	return Info{Size: int64(len(node.data)), Modified: node.modified, Dir: node.dir}, nil
}

// List returns the names in a directory, sorted.
func (m *Memory) List(dir string) ([]string, error) {
	dir = filepath.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isDir(dir) {
		return nil, pathError(OpList, dir, fs.ErrNotExist)
	}
	var names []string
	for name := range m.names {
		if filepath.Dir(name) == dir && name != dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Mkdir makes a directory and its missing parents, all durable.
func (m *Memory) Mkdir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir = filepath.Clean(dir); !m.isDir(dir); dir = filepath.Dir(dir) {
		if m.names[dir] != nil {
			return pathError(OpMkdir, dir, fs.ErrExist)
		}
		node := &inode{dir: true, modified: time.Now()}
		m.names[dir], m.durable[dir] = node, node
	}
	return nil
}

// Rename moves a file over another.
func (m *Memory) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[from]
	if node == nil || !m.isDir(filepath.Dir(to)) {
		return pathError(OpRename, from, fs.ErrNotExist)
	}
	r := rename{from: from, to: to, node: node}
	for name, child := range m.names {
		if rel, err := filepath.Rel(from, name); err == nil && rel != "." && filepath.IsLocal(rel) {
			r.inside = append(r.inside, rename{from: name, to: filepath.Join(to, rel), node: child})
		}
	}
	m.change(r)
	return nil
}

// Remove removes a file or an empty directory.
func (m *Memory) Remove(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] == nil {
		return pathError(OpRemove, name, fs.ErrNotExist)
	}
	for other := range m.names {
		if filepath.Dir(other) == name && other != name {
			return pathError(OpRemove, name, fs.ErrInvalid)
		}
	}
	m.change(rename{from: name})
	return nil
}

// SyncDir makes the names in a directory durable.
func (m *Memory) SyncDir(dir string) error {
	dir = filepath.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isDir(dir) {
		return pathError(OpSyncDir, dir, fs.ErrNotExist)
	}
	m.pending = slices.DeleteFunc(m.pending, func(r rename) bool {
		if (r.from == "" || filepath.Dir(r.from) != dir) && (r.to == "" || filepath.Dir(r.to) != dir) {
			return false
		}
		r.apply(m.durable)
		return true
	})
	return nil
}

// Lock takes a lock among the users of this Memory.
func (m *Memory) Lock(name string) (io.Closer, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] {
		return nil, pathError(OpLock, name, ErrLocked)
	}
	m.locks[name] = true
	return &memoryLock{m, name}, nil
}

type memoryLock struct {
	m    *Memory
	name string
}

func (l *memoryLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.name)
	return nil
}

func pathError(op Op, name string, err error) error {
	return &fs.PathError{Op: string(op), Path: name, Err: err}
}
