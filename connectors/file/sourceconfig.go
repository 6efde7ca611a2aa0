package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// BadRows says what happens to a row that cannot be read.
type BadRows string

// The choices.
const (
	StopAtBad BadRows = "stop"
	SkipBad   BadRows = "skip"
)

// SourceConfig is the settings of a source of type file.
type SourceConfig struct {
	document.Settings `yaml:",inline"`

	// Path is a directory, whose files are read and those of the folders in it, or a glob of files: data/in/*.csv.
	Path string `yaml:"path"`

	Format  rowfile.Format   `yaml:"format"`  // jsonl | csv | parquet; what the name of each file ends in
	Content document.Content `yaml:"content"` // rows | changes; rows

	// Table names the table, table or schema.table. {dir} stands for the folder that a file is in, {file} for its name up to
	// the first dot. With content: changes it is for those that do not name their table. Default {dir}.
	Table string `yaml:"table"`

	Delimiter string        `yaml:"delimiter"` // CSV: between two fields; a comma
	BadRows   BadRows       `yaml:"bad_rows"`  // stop | skip; stop
	Poll      time.Duration `yaml:"poll"`      // how often to look for more; 1s
}

func decodeSource(decode connectors.Decode) (*SourceConfig, error) {
	c := &SourceConfig{Content: document.Rows, Table: "{dir}", Delimiter: ",", BadRows: StopAtBad, Poll: time.Second}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SourceConfig) Validate() error {
	errs := []error{c.Settings.Validate()}
	if c.Path == "" {
		errs = append(errs, errors.New("path is missing: a directory, or a glob of files"))
	}
	if _, err := filepath.Match(c.Path, ""); err != nil {
		errs = append(errs, fmt.Errorf("path %q: not a valid pattern", c.Path))
	}
	if strings.Contains(c.Path, "**") {
		errs = append(errs, errors.New("path has **; name the directory alone, whose folders are read too"))
	}
	if !slices.Contains([]rowfile.Format{"", rowfile.JSONL, rowfile.CSV, rowfile.Parquet}, c.Format) {
		errs = append(errs, errors.New("format is not one of jsonl, csv, parquet"))
	}
	if c.Content != document.Rows && c.Content != document.Changes {
		errs = append(errs, errors.New("content is not one of rows, changes"))
	}
	if rest := strings.NewReplacer("{dir}", "", "{file}", "").Replace(c.Table); c.Table == "" || strings.ContainsAny(rest, "{}") {
		errs = append(errs, errors.New("table is not a name, in which {dir} and {file} can stand"))
	}
	if r, n := utf8.DecodeRuneInString(c.Delimiter); n != len(c.Delimiter) || n != 1 || r == '"' || r == '\n' || r == '\r' {
		errs = append(errs, errors.New(`delimiter is not one character: "," ";" "|" or a tab`))
	}
	if c.BadRows != StopAtBad && c.BadRows != SkipBad {
		errs = append(errs, errors.New("bad_rows is not one of stop, skip"))
	}
	if c.Poll <= 0 {
		errs = append(errs, errors.New("poll must be above 0"))
	}
	return errors.Join(errs...)
}

// form returns how a file is written, by the setting and by its name. It reports false for files that are none of ours.
func (c *SourceConfig) form(name string) (rowfile.Format, rowfile.Compression, bool) {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return "", "", false
	}
	if c.Format != "" {
		for compression, ending := range map[rowfile.Compression]string{rowfile.Gzip: ".gz", rowfile.Zstd: ".zst"} {
			if strings.HasSuffix(name, ending) && c.Format != rowfile.Parquet {
				return c.Format, compression, true
			}
		}
		return c.Format, rowfile.None, true
	}
	parts := strings.Split(strings.ToLower(name), ".")
	for i := max(1, len(parts)-2); i < len(parts); i++ {
		ending := strings.Join(parts[i:], ".")
		ending = strings.Replace(ending, "ndjson", "jsonl", 1)
		if f, compression, ok := rowfile.ParseEnding(ending); ok {
			return f, compression, true
		}
	}
	return "", "", false
}

// tableOf returns the name of the table of a file. The names of folders that Hive makes (date=2026-01-30) are not looked at.
func (c *SourceConfig) tableOf(path string) document.Name {
	dir := filepath.Dir(path)
	for strings.Contains(filepath.Base(dir), "=") {
		dir = filepath.Dir(dir)
	}
	file, _, _ := strings.Cut(filepath.Base(path), ".")
	plain := func(s string) string { return strings.ReplaceAll(s, ".", "_") }
	return document.SplitName(strings.NewReplacer("{dir}", plain(filepath.Base(dir)), "{file}", plain(file)).Replace(c.Table))
}

// checkSource looks for files.
func checkSource(_ context.Context, c *SourceConfig, _ connectors.Env) ([]connectors.Finding, error) {
	found, err := list(c)
	if err != nil {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: c.Path, Problem: err.Error(), Remedy: "make it, or correct path"}}, nil
	}
	if len(found) == 0 {
		return []connectors.Finding{{
			Severity: connectors.Warning, Subject: c.Path, Problem: "there is no file of a known ending",
			Remedy: "if there should be: name them .jsonl, .ndjson, .csv (with .gz or .zst) or .parquet, or set format",
		}}, nil
	}
	var out []connectors.Finding
	for _, f := range found {
		h, err := os.Open(f.path)
		if err != nil {
			out = append(out, connectors.Finding{Severity: connectors.Fatal, Subject: f.name, Problem: err.Error(), Remedy: "let Trunkline's user read it"})
			continue
		}
		if err := h.Close(); err != nil {
			return nil, err
		}
	}
	if len(c.Key) == 0 && c.Content == document.Rows {
		out = append(out, connectors.Finding{
			Severity: connectors.Info, Subject: "key", Problem: "the rows have no key: a sink can only append them", Remedy: "set key, if a column tells them apart",
		})
	}
	return out, nil
}
