// Package rowfile writes changes as the content of files: JSON lines, CSV, Parquet, each of them compressed or not. It reads
// the rows of Parquet, whoever wrote them.
//
// It promises that a file is whole: what Encode returns has its header and its footer, and means the same whatever stands
// before and behind it. Every change is a row, with what happened to it beside the columns of its table. It knows neither
// folders nor buckets nor positions: the connectors file and s3, which call it, decide what a file is named and when it is there.
package rowfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/trunkline/trunkline/connectors"
)

// Format is how rows stand in a file.
type Format string

// The formats.
const (
	JSONL   Format = "jsonl"
	CSV     Format = "csv"
	Parquet Format = "parquet"
)

// Compression is what makes a file smaller: of a text all of it, of Parquet each page.
type Compression string

// The compressions.
const (
	None Compression = "none"
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// Settings are the part of a sink's settings that this package follows.
type Settings struct {
	Format          Format                     `yaml:"format"`          // jsonl | csv | parquet; jsonl
	Compression     Compression                `yaml:"compression"`     // none | gzip | zstd; none, for Parquet zstd
	Unrepresentable connectors.Unrepresentable `yaml:"unrepresentable"` // Parquet: text | null | dead_letter; text
}

// Validate fills in what depends on the format, and checks the rest.
func (s *Settings) Validate() error {
	var errs []error
	if s.Format == "" {
		s.Format = JSONL
	}
	if !slices.Contains([]Format{JSONL, CSV, Parquet}, s.Format) {
		errs = append(errs, fmt.Errorf("format %q is not one of jsonl, csv, parquet", s.Format))
	}
	if s.Compression == "" {
		s.Compression = None
		if s.Format == Parquet {
			s.Compression = Zstd
		}
	}
	if !slices.Contains([]Compression{None, Gzip, Zstd}, s.Compression) {
		errs = append(errs, fmt.Errorf("compression %q is not one of none, gzip, zstd", s.Compression))
	}
	if s.Unrepresentable == "" {
		s.Unrepresentable = connectors.UnrepresentableText
	}
	return errors.Join(append(errs, s.Unrepresentable.Validate())...)
}

// Ending returns what the names of files end in: jsonl, csv.gz, jsonl.zst, parquet.
func (s *Settings) Ending() string {
	if s.Format == Parquet {
		return string(s.Format)
	}
	return string(s.Format) + suffixes[s.Compression]
}

var suffixes = map[Compression]string{Gzip: ".gz", Zstd: ".zst"}

// ParseEnding is the inverse of Ending. The compression of Parquet stands in the file, so it is None here.
func ParseEnding(ending string) (Format, Compression, bool) {
	compression := None
	for c, suffix := range suffixes {
		if cut, ok := strings.CutSuffix(ending, suffix); ok {
			ending, compression = cut, c
			break
		}
	}
	f := Format(ending)
	ok := f == JSONL || f == CSV || f == Parquet && compression == None
	return f, compression, ok
}

// Day returns the day in UTC of the first change, and how many changes from there are of it. A change without a time is of
// the day of the one before it. Where none has a time, the day is "unknown".
func Day(changes []connectors.Change) (day string, n int) {
	day = "unknown"
	for n = range changes {
		at := changes[n].Time
		if at.IsZero() {
			continue
		}
		switch d := at.UTC().Format(time.DateOnly); {
		case n == 0:
			day = d
		case d != day:
			return day, n
		}
	}
	return day, len(changes)
}

// compressed returns a writer of the compression; to close it does not close w.
func compressed(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case Gzip:
		return gzip.NewWriter(w), nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return plain{w}, nil
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// Decompress returns a reader of what a file of the compression holds.
func Decompress(r io.Reader, c Compression) (io.ReadCloser, error) {
	switch c {
	case Gzip:
		return gzip.NewReader(r)
	case Zstd:
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}
