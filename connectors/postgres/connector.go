// Package postgres captures changes from PostgreSQL and writes into it.
//
// The source promises every committed change of the chosen tables, in commit order and exactly as the database prints
// it, after a snapshot of the rows that were there before, from PostgreSQL 13 on. It creates a replication slot and a
// publication, reads nothing that it was not told to read, and never lets the server keep WAL that is durable
// elsewhere. It does not capture DDL, sequences, large objects, or TRUNCATE of a single partition.
//
// The sink promises each change exactly once: the position of a stream is stored in the transaction of its rows, and an
// older writer of the same group is fenced. It creates and widens tables as far as it is allowed to, never overwrites a
// column that a change does not carry, and names the rows that the server refuses so that the rest can land. It does
// not drop or rename anything.
//
// The pipeline calls Connector once and knows the rest through package connectors.
package postgres

import (
	"context"

	"github.com/trunkline/trunkline/connectors"
)

// Connector returns the type postgres.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name:        "postgres",
		Source:      openSource,
		CheckSource: checkSource,
		Sink:        openSink,
		CheckSink:   checkSink,

		Survey:        surveySource,
		CompareSource: compareSource,
		CompareSink:   compareSink,
		Guard:         guardSource,
		ForeseeSource: foreseeSource,
		ForeseeSink:   foreseeSink,
	}
}

func openSource(decode connectors.Decode) (connectors.OpenSource, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
		return openMode(ctx, config, env, from)
	}, nil
}

// openMode opens the source in its mode.
func openMode(ctx context.Context, config SourceConfig, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	if config.Mode == modeTimestamp {
		return newExtract(ctx, config, env, from)
	}
	return newSource(ctx, config, env, from)
}

func checkSource(decode connectors.Decode) (connectors.Check, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) ([]connectors.Finding, error) {
		return check(ctx, config, env)
	}, nil
}
