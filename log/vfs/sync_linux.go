package vfs

import (
	"io/fs"
	"os"
	"syscall"
)

// syncData leaves out times of the inode, which saves a journal commit when the size did not change.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return &fs.PathError{Op: string(OpSync), Path: f.Name(), Err: err}
		}
	}
}
