package mysql

import (
	"context"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// foreseeSink says which tables the sink would make. A source makes nothing on its server.
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
		names := []tableName{{config.Offsets, offsetsTable}}
		for _, t := range tables {
			n, err := config.target(t, database)
			if err != nil {
				return nil, err
			}
			names = append(names, n)
		}
		var out []connectors.Effect
		for _, n := range names {
			effect := connectors.Effect{Kind: "table", Name: n.full(), Action: connectors.Keep}
			var there int
			err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", n.schema, n.name).Scan(&there)
			if err != nil {
				return nil, fmt.Errorf("look at table %s: %w", n.full(), settle(err))
			}
			if there == 0 {
				effect.Action = connectors.Create
			}
			out = append(out, effect)
		}
		return out, nil
	}, nil
}
