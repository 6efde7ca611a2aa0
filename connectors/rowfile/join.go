package rowfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// Header returns what files must have in common to become one: the columns and their types. Of JSON lines it is empty.
func Header(path string, f Format, c Compression) (header string, err error) {
	if f == JSONL {
		return "", nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if f == Parquet {
		p, err := openParquet(file)
		if err != nil {
			return "", err
		}
		return p.Schema().String(), nil
	}
	r, err := Decompress(file, c)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return readHeader(bufio.NewReader(r))
}

// Join writes the rows of files of one ending and one header as one file.
func Join(w io.Writer, paths []string, f Format, c Compression, s *Settings) error {
	if f == Parquet {
		return joinParquet(w, paths, s)
	}
	out, err := compressed(w, c)
	if err != nil {
		return err
	}
	for i, path := range paths {
		if err := joinText(out, path, f, c, i > 0); err != nil {
			return err
		}
	}
	return out.Close()
}

// joinText appends a file, without its header where another one stands before it.
func joinText(w io.Writer, path string, f Format, c Compression, behind bool) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := Decompress(file, c)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	r := bufio.NewReaderSize(text, 1<<18)
	if behind && f == CSV {
		if _, err := readHeader(r); err != nil {
			return fmt.Errorf("read header of %s: %w", path, err)
		}
	}
	_, err = io.Copy(w, r)
	return err
}

func openParquet(f *os.File) (*parquet.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at file: %w", err)
	}
	p, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("open parquet file: %w", err)
	}
	return p, nil
}

func joinParquet(w io.Writer, paths []string, s *Settings) error {
	var out *parquet.GenericWriter[any]
	for _, path := range paths {
		err := withParquet(path, func(p *parquet.File) error {
			if out == nil {
				out = parquet.NewGenericWriter[any](w, p.Schema(), parquet.Compression(codec(s.Compression)), parquet.MaxRowsPerRowGroup(rowsPerGroup))
			}
			for _, group := range p.RowGroups() {
				rows := group.Rows()
				_, err := parquet.CopyRows(out, rows)
				if err := errors.Join(err, rows.Close()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	return out.Close()
}

func withParquet(path string, do func(*parquet.File) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p, err := openParquet(f)
	if err != nil {
		return err
	}
	return do(p)
}
