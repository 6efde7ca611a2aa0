// Package mysql captures changes from MySQL and MariaDB and writes into them.
//
// The source promises every committed change of the chosen tables, in the order of the binary log and as the database
// itself shows the values, after a snapshot of the rows that were there before. It reads with the rights of a replica,
// locks no table on MariaDB, and follows DDL: a value stands under the column and the type that it was written with. It
// does not see what is not in the binary log: the rows that a foreign key's cascade changes, and sessions with
// sql_log_bin off.
//
// The sink promises each change exactly once: the position of a stream is stored in the transaction of its rows, and an
// older writer of the same group is fenced. It creates and widens tables as far as it is allowed to, never overwrites a
// column that a change does not carry, and names the rows that the server refuses so that the rest can land. It does
// not drop or rename anything.
//
// The pipeline calls Connector once and knows the rest through package connectors.
package mysql

import (
	"context"

	"github.com/trunkline/trunkline/connectors"
)

// Connector returns the type mysql, which is MariaDB's too.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name:        "mysql",
		Source:      openSource,
		CheckSource: checkSource,
		Sink:        openSink,
		CheckSink:   checkSink,

		Survey:        surveySource,
		CompareSource: compareSource,
		CompareSink:   compareSink,
		Guard:         guardSource,
		ForeseeSink:   foreseeSink,
	}
}

func openSource(decode connectors.Decode) (connectors.OpenSource, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
		if config.Mode == modeTimestamp {
			return newExtract(ctx, config, env, from)
		}
		return newSource(ctx, config, env, from)
	}, nil
}
