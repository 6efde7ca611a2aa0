package file

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trunkline/trunkline/connectors/rowfile"
)

// fan is how many small files become one.
const fan = 10

// smallest is the size below which files are of one tier; each tier above is fan times as large.
const smallest = 64 << 10

func tier(size int64) int {
	n := 0
	for limit := int64(smallest); size >= limit; limit *= fan {
		n++
	}
	return n
}

// merge makes one file of the last ones, when fan of them are no larger than the last one's tier, and goes on as long as
// the result is again the last of fan. So a row is copied once for each tier and not with every batch, and a partition
// keeps at most fan files of each tier. Files of roll bytes and more are left alone.
func (p *partition) merge(roll int64, settings *rowfile.Settings) error {
	for {
		n := p.mergeable(roll)
		if n < fan {
			return nil
		}
		if err := p.join(p.files[len(p.files)-n:], settings); err != nil {
			return err
		}
	}
}

// mergeable returns how many of the last files may become one.
func (p *partition) mergeable(roll int64) int {
	n, sum := 0, int64(0)
	for i := len(p.files) - 1; i >= 0; i-- {
		f, last := p.files[i], p.files[len(p.files)-1]
		if f.size >= roll || sum+f.size > 2*roll || f.ending != last.ending || f.folder != last.folder || tier(f.size) > tier(last.size) {
			break
		}
		sum += f.size
		n++
	}
	return n
}

// join writes the rows of the parts under the name of their common range and then removes the parts. Between the two
// a reader sees rows twice, unless it ignores files that a larger range covers; so does load after a crash.
func (p *partition) join(parts []span, settings *rowfile.Settings) error {
	format, compression, _ := rowfile.ParseEnding(parts[0].ending)
	same, err := p.sameHeader(parts, format, compression)
	if err != nil {
		return err
	}
	if parts = parts[len(parts)-same:]; len(parts) < fan {
		return errHeader
	}
	merged := parts[0]
	merged.last = parts[len(parts)-1].last
	paths := make([]string, len(parts))
	for i, s := range parts {
		paths[i] = p.path(s)
	}
	err = create(filepath.Dir(p.path(merged)), merged.name(), func(out *os.File) error {
		w := bufio.NewWriterSize(out, 1<<18)
		if err := rowfile.Join(w, paths, format, compression, settings); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		info, err := out.Stat()
		if err == nil {
			merged.size = info.Size()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("merge files: %w", err)
	}
	for _, s := range parts {
		if err := p.remove(s); err != nil {
			return fmt.Errorf("merge files: %w", err)
		}
	}
	p.files = append(p.files[:len(p.files)-len(parts)], merged)
	return nil
}

// errHeader says that the last files are of different columns and stay as they are.
var errHeader = errors.New("files have different headers")

// sameHeader returns how many of the last parts have the header of the last one.
func (p *partition) sameHeader(parts []span, f rowfile.Format, c rowfile.Compression) (int, error) {
	want := ""
	for n := range parts {
		s := parts[len(parts)-1-n]
		header, err := rowfile.Header(p.path(s), f, c)
		if err != nil {
			return 0, fmt.Errorf("read header of %s: %w", s.name(), err)
		}
		if n > 0 && header != want {
			return n, nil
		}
		want = header
	}
	return len(parts), nil
}
