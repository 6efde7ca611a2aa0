//go:build unix

package file

import (
	"os"
	"syscall"
)

// flock waits for the lock of an open file; it ends with the file.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			return err
		}
	}
}
