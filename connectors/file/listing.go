package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// maxFiles bounds the files that stand in a source's directory, each of which has its place in the position.
const maxFiles = 10_000

// input is a file that a source reads.
type input struct {
	path        string
	name        string // what it is called in errors and in the position: below the directory, with slashes
	info        fs.FileInfo
	format      rowfile.Format
	compression rowfile.Compression
	table       document.Name
}

// list returns the files of a source in the order of their names.
func list(c *SourceConfig) ([]input, error) {
	root, pattern := c.Path, ""
	if strings.ContainsAny(c.Path, `*?[`) {
		pattern = filepath.Clean(c.Path)
		for root = filepath.Dir(pattern); strings.ContainsAny(root, `*?[`); {
			root = filepath.Dir(root)
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	var paths []string
	switch {
	case pattern != "":
		paths, err = filepath.Glob(pattern)
	case !info.IsDir():
		paths, root = []string{root}, filepath.Dir(root)
	default:
		paths, err = walk(root)
	}
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	return inputs(c, root, paths)
}

// walk returns the files below a directory. Folders whose names begin with a dot or an underscore are left out.
func walk(root string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it went while it was looked at
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.ContainsAny(d.Name()[:1], "._"):
			return filepath.SkipDir
		case !d.IsDir():
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

func inputs(c *SourceConfig, root string, paths []string) ([]input, error) {
	var found []input
	for _, path := range paths {
		format, compression, ok := c.form(filepath.Base(path))
		if !ok {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find files: %w", err)
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find files: %w", err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			name = path
		}
		found = append(found, input{path, filepath.ToSlash(name), info, format, compression, c.tableOf(path)})
	}
	if len(found) > maxFiles {
		return nil, fmt.Errorf("find files: %d of them in %s, the limit is %d; move away those that were read: %w", len(found), c.Path, maxFiles, connectors.ErrFatal)
	}
	slices.SortFunc(found, func(a, b input) int { return cmp.Compare(a.name, b.name) })
	return found, nil
}

// same reports that nothing happened to a file between two looks, as far as one can tell without reading it.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}
