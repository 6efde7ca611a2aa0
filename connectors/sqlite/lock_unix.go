//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// noFollow keeps a link that somebody left in a folder of all from being opened.
const noFollow = syscall.O_NOFOLLOW

// tryLock reports whether it got the lock of an open file, which ends with the file and with the process.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
