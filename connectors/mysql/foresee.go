package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// foreseeSink says which databases and tables the sink would make, and which columns it would add. A source makes nothing on its server.
func foreseeSink(decode connectors.Decode) (connectors.Foresee, error) {
	config := DefaultSinkConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ connectors.Env, tables []*connectors.Table) ([]connectors.Effect, error) {
		e, err := config.address().endpoint()
		if err != nil {
			return nil, err
		}
		database := e.database
		e.database = "" // which may be one that is still to be created
		db, err := e.pool()
		if err != nil {
			return nil, err
		}
		defer db.Close()
		f := sinkForesight{db: db, add: config.Schema.Add}
		if err := f.table(ctx, tableName{config.Offsets, offsetsTable}, nil); err != nil {
			return nil, err
		}
		for _, t := range tables {
			n, err := config.target(t, database)
			if err != nil {
				return nil, err
			}
			if err := f.table(ctx, n, t); err != nil {
				return nil, err
			}
		}
		return f.effects, nil
	}, nil
}

// sinkForesight collects what a sink would do on its server.
type sinkForesight struct {
	db        *sql.DB
	add       connectors.Follow
	databases []string // those that were looked at
	effects   []connectors.Effect
}

// table looks at one table of the target. wanted is the table that it is for, nil for the one of offsets.
func (f *sinkForesight) table(ctx context.Context, n tableName, wanted *connectors.Table) error {
	list := func(query string, args ...any) (out []string, err error) {
		rows, err := f.db.QueryContext(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return nil, err
			}
			out = append(out, name)
		}
		return out, rows.Err()
	}
	columns, err := list("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", n.schema, n.name)
	if err != nil {
		return fmt.Errorf("look at table %s: %w", n.full(), settle(err))
	}
	e := connectors.ForeseeTable(n.full(), wanted, len(columns) > 0, f.add, func(column string) bool {
		return slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, column) })
	})
	if e.Action == connectors.Create && !slices.Contains(f.databases, n.schema) {
		f.databases = append(f.databases, n.schema)
		there, err := list("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", n.schema)
		if err != nil {
			return fmt.Errorf("look at database %s: %w", n.schema, settle(err))
		}
		if len(there) == 0 {
			f.effects = append(f.effects, connectors.Effect{Kind: "database", Name: n.schema, Action: connectors.Create})
		}
	}
	f.effects = append(f.effects, e)
	return nil
}
