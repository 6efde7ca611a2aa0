package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const errQuota = windows.ERROR_DISK_FULL

func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{})
}

// syncDir does nothing: Windows keeps names durable by itself and cannot flush a directory.
func syncDir(string) error { return nil }
