package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Connector returns the type sqlite.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "sqlite",
		Source: func(decode connectors.Decode) (connectors.OpenSource, error) {
			c, err := decodeSource(decode)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
				return openSource(ctx, c, env, from)
			}, nil
		},
		Sink: func(decode connectors.Decode) (connectors.OpenSink, error) {
			c, err := decodeSink(decode)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
				return openSink(ctx, c, env)
			}, nil
		},
		CheckSource: func(decode connectors.Decode) (connectors.Check, error) {
			c, err := decodeSource(decode)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, env connectors.Env) ([]connectors.Finding, error) {
				return checkSource(ctx, c, env)
			}, nil
		},
		CheckSink: func(decode connectors.Decode) (connectors.Check, error) {
			c, err := decodeSink(decode)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, env connectors.Env) ([]connectors.Finding, error) {
				return checkSink(ctx, c, env)
			}, nil
		},
		Survey: func(decode connectors.Decode) (connectors.Survey, error) {
			c, err := decodeSource(decode)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, _ connectors.Env) (connectors.Offer, error) { return survey(ctx, c) }, nil
		},
		CompareSource: func(decode connectors.Decode) (connectors.OpenComparer, error) {
			c, err := decodeSource(decode)
			if err != nil {
				return nil, err
			}
			return compareSource(c), nil
		},
		CompareSink: func(decode connectors.Decode) (connectors.OpenComparer, error) {
			c, err := decodeSink(decode)
			if err != nil {
				return nil, err
			}
			return compareSink(c), nil
		},
		ForeseeSink: foreseeSink,
	}
}

// File says where a database is. Exactly one of the two is set.
type File struct {
	Path string `yaml:"path"` // of the database file
	DSN  string `yaml:"dsn"`  // sqlite:PATH or file:PATH, which may have SQLite's URI parameters
}

func (f *File) validate() error {
	switch {
	case f.Path == "" && f.DSN == "":
		return errors.New("path is missing")
	case f.Path != "" && f.DSN != "":
		return errors.New("path and dsn exclude each other")
	case f.DSN != "" && !strings.HasPrefix(f.DSN, "sqlite:") && !strings.HasPrefix(f.DSN, "file:"):
		return errors.New(`dsn begins with neither "sqlite:" nor "file:"`)
	}
	return nil
}

// name is what people call the file.
func (f *File) name() string {
	if f.Path != "" {
		return f.Path
	}
	name, _, _ := strings.Cut(f.DSN, "?")
	return name
}

// uri returns the driver's name for the database with more parameters.
func (f *File) uri(parameters ...string) string {
	name := "file:" + (&url.URL{Path: f.Path}).EscapedPath()
	if f.DSN != "" {
		name = f.DSN
		if rest, ok := strings.CutPrefix(f.DSN, "sqlite:"); ok {
			name = "file:" + rest
		}
	}
	if len(parameters) == 0 {
		return name
	}
	join := "?"
	if strings.Contains(name, "?") {
		join = "&"
	}
	return name + join + strings.Join(parameters, "&")
}

// SourceConfig is the settings of a source of type sqlite.
type SourceConfig struct {
	File    `yaml:",inline"`
	Mode    string                 `yaml:"mode"`    // timestamp, the only one
	Tables  []connectors.TableSpec `yaml:"tables"`  // names or globs, alone or after "main."
	Exclude []string               `yaml:"exclude"` // names or globs that are left out
	Poll    time.Duration          `yaml:"poll"`    // how often to look for new rows; 1s

	// NullCursor is what happens to rows whose cursor is NULL: first (the first extract begins with them) or skip.
	NullCursor NullCursor `yaml:"null_cursor"`

	// Deletes says whether rows that are gone are looked for: ignore, or detect, which compares all keys with those that are
	// known when DeletesEvery says.
	Deletes      string            `yaml:"deletes"`       // ignore
	DeletesEvery connectors.Timing `yaml:"deletes_every"` // 1h
}

// NullCursor says what an extract does with rows that have no cursor.
type NullCursor string

// The choices of a source.
const (
	NullFirst NullCursor = "first"
	NullSkip  NullCursor = "skip"
)

func decodeSource(decode connectors.Decode) (*SourceConfig, error) {
	c := &SourceConfig{Mode: "timestamp", Poll: time.Second, NullCursor: NullFirst, Deletes: deletesIgnore, DeletesEvery: connectors.Every(time.Hour)}
	if err := decode(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate checks the settings.
func (c *SourceConfig) Validate() error {
	var errs []error
	errs = append(errs, c.validate())
	if c.Mode != "timestamp" {
		errs = append(errs, errors.New("mode is not timestamp, the only one that SQLite has"))
	}
	if len(c.Tables) == 0 {
		errs = append(errs, errors.New(`tables is missing; tables: ["*"] takes all`))
	}
	for i := range c.Tables {
		errs = append(errs, c.Tables[i].Validate())
		if c.Tables[i].Query != "" {
			errs = append(errs, validateQuery(&c.Tables[i]))
		}
	}
	for _, e := range c.Exclude {
		if _, err := path.Match(e, ""); err != nil {
			errs = append(errs, fmt.Errorf("exclude %q: not a valid pattern", e))
		}
	}
	if c.Poll <= 0 {
		errs = append(errs, errors.New("poll must be above 0"))
	}
	if c.Deletes != deletesIgnore && c.Deletes != deletesDetect {
		errs = append(errs, errors.New("deletes is not one of ignore, detect"))
	}
	if c.NullCursor != NullFirst && c.NullCursor != NullSkip {
		errs = append(errs, errors.New("null_cursor is not one of first, skip"))
	}
	return errors.Join(errs...)
}

// spec returns the first entry of tables that takes the table, nil if there is none or it is excluded.
func (c *SourceConfig) spec(name string) *connectors.TableSpec {
	full := schemaName + "." + name
	for _, e := range c.Exclude {
		if connectors.MatchName(e, full) || connectors.MatchName(e, name) {
			return nil
		}
	}
	for i := range c.Tables {
		if s := &c.Tables[i]; s.Matches(full) || s.Matches(name) {
			return s
		}
	}
	return nil
}

// Write says how a sink treats rows whose key is there already.
type Write string

// Deletes says what a sink does with a deleted row.
type Deletes string

// The choices of a sink.
const (
	Upsert Write = "upsert"
	Append Write = "append"

	ApplyDeletes  Deletes = "apply"
	SoftDeletes   Deletes = "soft"
	IgnoreDeletes Deletes = "ignore"
)

// SinkConfig is the settings of a sink of type sqlite.
type SinkConfig struct {
	File `yaml:",inline"`

	// Table names the target table. {database}, {schema} and {table} stand for the source's names, which SQLite has one
	// name for: {schema}.{table} is a table with a dot in its name. Default {table}.
	Table string `yaml:"table"`

	// Write is upsert (insert, update and delete by key; a table without a key is followed row by row) or append (each
	// row that comes is one more row).
	Write Write `yaml:"write"`

	// Deletes is apply (rows go), soft (rows stay and _deleted says so; with append one more row that is marked) or
	// ignore. Default apply, with append ignore.
	Deletes Deletes `yaml:"deletes"`

	// Schema is what happens when the target does not fit the source's table: evolve, lenient, freeze or ignore, in one
	// word or for each kind of change (connectors.SchemaPolicy). Where SQLite has no statement for a change of a key, evolve
	// puts a new table in place of the target.
	Schema connectors.SchemaPolicy `yaml:"schema"`

	// Unrepresentable is what happens to a value that a column of the target cannot hold, which only one that is not the
	// sink's own does: text, null or dead_letter, which is the default (connectors.Unrepresentable).
	Unrepresentable connectors.Unrepresentable `yaml:"unrepresentable"`
}

func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{Table: "{table}", Write: Upsert, Schema: connectors.FollowAll(connectors.Evolve), Unrepresentable: connectors.UnrepresentableDeadLetter}
	if err := decode(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate checks the settings.
func (c *SinkConfig) Validate() error {
	var errs []error
	errs = append(errs, c.validate())
	if c.Table == "" {
		errs = append(errs, errors.New("table is empty"))
	}
	deletes, err := connectors.SettleDeletes(string(c.Write), string(c.Deletes))
	c.Deletes, errs = Deletes(deletes), append(errs, err)
	errs = append(errs, c.Schema.Validate(), c.Unrepresentable.Validate())
	return errors.Join(errs...)
}

// target returns the name of the table that rows of t go to.
func (c *SinkConfig) target(t *connectors.Table) string {
	return strings.NewReplacer("{database}", t.Database, "{schema}", t.Schema, "{table}", t.Name).Replace(c.Table)
}
