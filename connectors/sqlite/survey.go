package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// survey lists the tables of a file that the settings choose. There are no rights to grant but those of the file.
func survey(ctx context.Context, c *SourceConfig) (out connectors.Offer, err error) {
	db, err := open(ctx, &c.File, readOnly...)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	rows, err := db.QueryContext(ctx, `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
		AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT LIKE '\_trunkline\_%' ESCAPE '\' ORDER BY name`)
	if err != nil {
		return out, fmt.Errorf("list tables: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return out, fmt.Errorf("list tables: %w", err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return out, fmt.Errorf("list tables: %w", err)
	}
	for _, name := range names {
		spec := c.spec(name)
		if spec == nil {
			continue
		}
		columns, err := columnsOf(ctx, db, name)
		if err != nil {
			return out, err
		}
		count, err := number(ctx, db, "SELECT count(*) FROM main."+quote(name))
		if err != nil {
			return out, err
		}
		t := &table{Table: &connectors.Table{Dialect: dialect, Schema: schemaName, Name: name, Topic: spec.Topic}}
		t.choose(columns, &connectors.TableSpec{})
		offered := connectors.OfferedTable{Name: name, Rows: count, Table: t.Table, Cursors: connectors.LikelyCursors(t.Table)}
		for _, p := range primaryKey(columns) {
			offered.Key = append(offered.Key, p.name)
		}
		if len(offered.Cursors) == 0 {
			if alias := rowidAlias(primaryKey(columns), false); alias != "" {
				offered.Cursors = []string{alias}
			}
		}
		out.Tables = append(out.Tables, offered)
	}
	return out, nil
}
