package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

func surveySource(decode connectors.Decode) (connectors.Survey, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) (connectors.Offer, error) {
		return survey(ctx, config.named(env.Name), env)
	}, nil
}

func survey(ctx context.Context, config SourceConfig, env connectors.Env) (out connectors.Offer, err error) {
	dial, err := newDialer(config, env.Name)
	if err != nil {
		return out, err
	}
	c := &catalog{dial: dial, config: &config, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
	defer c.close(context.WithoutCancel(ctx))
	err = c.do(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, "SELECT current_database()").Scan(&c.database) })
	if err != nil {
		return out, fmt.Errorf("look at the server: %w", err)
	}
	list, err := c.relations(ctx)
	if err != nil {
		return out, err
	}
	var schemas []string
	for _, r := range list {
		s, err := c.shapeOf(ctx, r)
		if err != nil {
			return out, err
		}
		t := connectors.OfferedTable{Name: r.full(), Rows: r.estimate, Table: s.table, Cursors: connectors.LikelyCursors(s.table)}
		for _, k := range s.table.Key {
			t.Key = append(t.Key, s.table.Columns[k].Name)
		}
		out.Tables = append(out.Tables, t)
		if !slices.Contains(schemas, r.schema) {
			schemas = append(schemas, r.schema)
		}
	}
	out.Grants = []string{"CREATE ROLE trunkline LOGIN REPLICATION PASSWORD '…'"}
	for _, s := range schemas {
		out.Grants = append(out.Grants, "GRANT USAGE ON SCHEMA "+ident(s)+" TO trunkline", "GRANT SELECT ON ALL TABLES IN SCHEMA "+ident(s)+" TO trunkline",
			"ALTER DEFAULT PRIVILEGES IN SCHEMA "+ident(s)+" GRANT SELECT ON TABLES TO trunkline")
	}
	// A publication can be made only by who owns its tables, so the owner makes it; the source uses one that is there.
	publication := "CREATE PUBLICATION " + ident(config.Publication) + " FOR ALL TABLES"
	if len(schemas) > 0 {
		publication = "CREATE PUBLICATION " + ident(config.Publication) + " FOR TABLE "
		for i, r := range list {
			if i > 0 {
				publication += ", "
			}
			publication += r.ident()
		}
	}
	out.Grants = append(out.Grants, publication+" WITH (publish_via_partition_root = true)")
	return out, nil
}
