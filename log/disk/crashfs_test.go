package disk_test

import (
	"io"
	"math/rand/v2"
	"sync"

	"github.com/trunkline/trunkline/log/vfs"
)

// crashFS is a disk in memory that keeps a picture of what a power cut would leave at a chosen call.
type crashFS struct {
	vfs.FS
	memory *vfs.Memory

	mu      sync.Mutex
	left    int // calls until the picture is taken; negative: none is wanted
	keep    float64
	rng     *rand.Rand
	picture *vfs.Memory
	onTake  func() // called when the picture is taken
}

func newCrashFS(m *vfs.Memory) *crashFS { return &crashFS{FS: m, memory: m, left: -1} }

// arm wants a picture after n calls from now that change the disk.
func (f *crashFS) arm(n int, keep float64, seed uint64, taken func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.keep, f.rng, f.picture, f.onTake = n, keep, rand.New(rand.NewPCG(seed, seed)), nil, taken
}

// taken reports whether the picture was taken; a call that returned before it reports false is in the picture.
func (f *crashFS) taken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.picture != nil
}

// disarm returns the picture, nil if it was not taken.
func (f *crashFS) disarm() *vfs.Memory {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = -1
	return f.picture
}

func (f *crashFS) count() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		f.picture = f.memory.Crash(f.keep, f.rng)
		f.onTake()
	}
	if f.left >= 0 {
		f.left--
	}
}

func (f *crashFS) Open(name string, flag int) (vfs.File, error) {
	f.count()
	file, err := f.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return crashFile{file, f}, nil
}

func (f *crashFS) Mkdir(dir string) error       { f.count(); return f.FS.Mkdir(dir) }
func (f *crashFS) Rename(from, to string) error { f.count(); return f.FS.Rename(from, to) }
func (f *crashFS) Remove(name string) error     { f.count(); return f.FS.Remove(name) }
func (f *crashFS) SyncDir(dir string) error     { f.count(); return f.FS.SyncDir(dir) }

func (f *crashFS) Lock(name string) (io.Closer, error) { return f.FS.Lock(name) }

type crashFile struct {
	vfs.File
	fs *crashFS
}

func (f crashFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.count()
	return f.File.WriteAt(p, off)
}

func (f crashFile) Sync() error {
	f.fs.count()
	return f.File.Sync()
}

func (f crashFile) Truncate(size int64) error {
	f.fs.count()
	return f.File.Truncate(size)
}
