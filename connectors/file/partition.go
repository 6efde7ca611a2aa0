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
)

// partition is the directory of one stream and what stands in it.
type partition struct {
	dir   string
	files []span // ascending, none covers another
	floor int64  // the position that the owner file holds; 0: none
}

// next is the offset after the last one that is durable; zero for an empty partition.
func (p *partition) next() int64 { return max(p.end(), p.floor) }

// end is the offset after the last file.
func (p *partition) end() int64 {
	if len(p.files) == 0 {
		return 0
	}
	return p.files[len(p.files)-1].last + 1
}

// path returns where a file stands.
func (p *partition) path(s span) string { return filepath.Join(p.dir, s.folder, s.name()) }

// list appends the files of a folder of the partition; temporary ones are removed.
func (p *partition) list(found []span, folder string) ([]span, error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, folder))
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			if err := remove(filepath.Join(p.dir, folder, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		if e.IsDir() && folder == "" && strings.HasPrefix(e.Name(), datePrefix) {
			if found, err = p.list(found, e.Name()); err != nil {
				return nil, err
			}
			continue
		}
		s, ok := parseName(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list files: %w", err)
		}
		s.size, s.folder = info.Size(), folder
		found = append(found, s)
	}
	return found, nil
}

// load reads the directory and finishes what a crash left: temporary files go, and so do parts of a merge whose result
// is there.
func (p *partition) load() error {
	found, err := p.list(nil, "")
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last)) })
	p.files = p.files[:0]
	for _, s := range found {
		switch end := p.end() - 1; {
		case s.first > end:
			p.files = append(p.files, s)
		case s.last <= end:
			if err := p.remove(s); err != nil {
				return err
			}
		default:
			return fmt.Errorf("read %s: %s overlaps the file before it; move one of them away: %w", p.dir, s.name(), connectors.ErrFatal)
		}
	}
	return nil
}

func (p *partition) remove(s span) error { return remove(p.path(s)) }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove file: %w", err)
	}
	return nil
}

// add makes a file of finished rows.
func (p *partition) add(s span, data []byte) error {
	s.size = int64(len(data))
	dir := filepath.Dir(p.path(s))
	if err := makeDir(dir); err != nil {
		return err
	}
	if err := writeFile(dir, s.name(), data); err != nil {
		return err
	}
	p.files = append(p.files, s)
	return nil
}
