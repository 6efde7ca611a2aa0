package mysql

import (
	"context"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

func surveySource(decode connectors.Decode) (connectors.Survey, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ connectors.Env) (connectors.Offer, error) { return survey(ctx, config) }, nil
}

func survey(ctx context.Context, config SourceConfig) (out connectors.Offer, err error) {
	e, err := config.address().endpoint()
	if err != nil {
		return out, err
	}
	db, err := e.pool()
	if err != nil {
		return out, err
	}
	defer db.Close()
	server, err := loadServer(ctx, db)
	if err != nil {
		return out, err
	}
	list, err := (&catalog{db: db, config: &config, maria: server.maria}).tables(ctx)
	if err != nil {
		return out, err
	}
	sets := &charsets{db: db}
	var schemas []string
	for _, f := range list {
		s, err := newShape(f.name, f.def, config.spec(f.name), sets)
		if err != nil {
			return out, err
		}
		t := connectors.OfferedTable{Name: f.name.full(), Rows: f.rows, Table: s.table, Cursors: connectors.LikelyCursors(s.table)}
		for _, k := range s.table.Key {
			t.Key = append(t.Key, s.table.Columns[k].Name)
		}
		out.Tables = append(out.Tables, t)
		if !slices.Contains(schemas, f.name.schema) {
			schemas = append(schemas, f.name.schema)
		}
	}
	out.Grants = []string{"CREATE USER trunkline IDENTIFIED BY '…'"}
	for _, s := range schemas {
		out.Grants = append(out.Grants, "GRANT SELECT ON "+ident(s)+".* TO trunkline")
	}
	global := "GRANT REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.* TO trunkline"
	if server.maria {
		global = "GRANT REPLICATION SLAVE, BINLOG MONITOR, PROCESS ON *.* TO trunkline"
	}
	out.Grants = append(out.Grants, global)
	return out, nil
}
