package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lockPatience is how long an open source waits for another process with the same source, which may be about to end.
const lockPatience = time.Second

// lockRuns keeps the runs of one source of one database apart, whichever process makes them. The lock is that of a file in the
// system's folder for temporary files, because nothing is written beside the database, and ends with the process.
func lockRuns(ctx context.Context, f *File, source string) (*os.File, error) {
	sum := sha256.Sum256([]byte(f.realPath() + "\x00" + source))
	path := filepath.Join(os.TempDir(), "trunkline-"+hex.EncodeToString(sum[:12])+".lock")
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|noFollow, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock source: %w", err)
	}
	for deadline := time.Now().Add(lockPatience); ; {
		locked, err := tryLock(file)
		if err == nil && locked {
			return file, nil
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("another process extracts source %s from %s", source, f.name())
		}
		if err == nil {
			err = sleep(ctx, lockPatience/20)
		}
		if err != nil {
			_ = file.Close() // nothing was written
			return nil, fmt.Errorf("lock source: %w", err)
		}
	}
}

// realPath is the file's own name, whatever name it is called by here.
func (f *File) realPath() string {
	path := f.Path
	if f.DSN != "" {
		_, path, _ = strings.Cut(f.name(), ":")
		path = strings.TrimPrefix(path, "//")
		if plain, err := url.PathUnescape(path); err == nil {
			path = plain
		}
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
