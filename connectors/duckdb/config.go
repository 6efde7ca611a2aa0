// Package duckdb writes rows into the tables of a DuckDB file.
//
// It promises each change exactly once: the rows of a batch and the position of its stream are one transaction, which a
// newer writer of the same group makes fail. Rows come into the file through DuckDB's appender and are merged by key in
// one statement, however many they are. DuckDB is a library in C++, so a program has it only when it was built with the
// tag duckdb; without it the settings are checked, and everything else says which tag is missing. The pipeline calls it.
package duckdb

import (
	"errors"

	"github.com/trunkline/trunkline/connectors"
)

const (
	writeUpsert = "upsert"
	writeAppend = "append"
)

// SinkConfig is the settings of a sink of type duckdb.
type SinkConfig struct {
	Path string `yaml:"path"` // of the database file; made when missing

	// Table names the target table, schema.table. {database}, {schema} and {table} stand for the source's names. Without a
	// schema it is main. Default {schema}.{table}.
	Table string `yaml:"table"`

	// Write is upsert (insert, update and delete by key) or append (each row that comes is one more row).
	Write string `yaml:"write"`

	// Deletes is apply (rows go), soft (rows stay and _deleted says so; with append one more row that is marked) or
	// ignore. Default apply, with append ignore.
	Deletes string `yaml:"deletes"`

	Schema          connectors.SchemaPolicy    `yaml:"schema"`          // evolve
	Unrepresentable connectors.Unrepresentable `yaml:"unrepresentable"` // text | null | dead_letter; text

	Memory  connectors.Size `yaml:"memory"`  // what DuckDB may take before it writes to disk; 1GiB
	Threads int             `yaml:"threads"` // of DuckDB; 0: one for each core
}

// Connector returns the type duckdb. It has no source.
func Connector() connectors.Connector {
	c := connectors.NewSink("duckdb", decodeSink, open, check)
	c.SinkBatch.BatchRows = 50_000 // a merge by key costs nearly the same for few rows and for many
	return c
}

// decodeSink refuses a program without DuckDB where its settings are read, before anything has begun.
func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{
		Table: "{schema}.{table}", Write: writeUpsert, Schema: connectors.FollowAll(connectors.Evolve),
		Unrepresentable: connectors.UnrepresentableText, Memory: 1 << 30,
	}
	if err := decode(c); err != nil {
		return nil, err
	}
	return c, errMissing
}

// Validate checks the settings.
func (c *SinkConfig) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path is missing"))
	}
	if c.Table == "" {
		errs = append(errs, errors.New("table is empty"))
	}
	deletes, err := connectors.SettleDeletes(c.Write, c.Deletes)
	c.Deletes, errs = deletes, append(errs, err)
	if c.Memory < 64<<20 {
		errs = append(errs, errors.New("memory must be at least 64MiB"))
	}
	if c.Threads < 0 {
		errs = append(errs, errors.New("threads must not be negative"))
	}
	return errors.Join(append(errs, c.Schema.Validate(), c.Unrepresentable.Validate())...)
}
