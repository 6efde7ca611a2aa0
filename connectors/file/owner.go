package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trunkline/trunkline/connectors"
)

const (
	ownerName  = ".owner"
	lockName   = ".lock"
	tempPrefix = ".tmp-"
)

// owner says which writer a directory belongs to. The root holds the number of the newest writer of the group; each
// partition holds the number of the writer that has claimed it, and a position where no file's name says it: behind
// records that made no row, or where a person has set it.
type owner struct {
	Group  string `json:"group"`
	Epoch  int64  `json:"epoch"`
	Next   int64  `json:"next,omitempty"`
	Layout Layout `json:"layout,omitempty"` // in the root; none: plain
}

// locked runs do while no other process looks at or changes the directory.
func locked(dir string, do func() error) (err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := flock(f); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	return do()
}

// readOwner returns the zero value when nobody has the directory.
func readOwner(dir string) (owner, error) {
	var o owner
	b, err := os.ReadFile(filepath.Join(dir, ownerName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("read owner: %w", err)
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return o, fmt.Errorf("read owner of %s: %w: %w", dir, err, connectors.ErrFatal)
	}
	return o, nil
}

func writeOwner(dir string, o owner) error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("write owner: %w", err)
	}
	return writeFile(dir, ownerName, b)
}

// writeFile makes a file appear under its name with all of its content, durably, or not at all.
func writeFile(dir, name string, data []byte) error {
	return create(dir, name, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

func create(dir, name string, fill func(*os.File) error) error {
	temp := filepath.Join(dir, tempPrefix+name)
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(temp) // if it stays, the next opening removes it
		return fmt.Errorf("write file: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = d.Sync()
	if err := errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// makeDir makes a directory and its parents durable up to one that was there.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	return syncDir(parent)
}
