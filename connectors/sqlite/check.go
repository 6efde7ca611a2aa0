package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// checkSource reports what a cursor cannot see, table by table.
func checkSource(ctx context.Context, c *SourceConfig, _ connectors.Env) (out []connectors.Finding, err error) {
	db, err := open(ctx, &c.File, readOnly...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	list, out, err := catalog(ctx, db, c)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		out = append(out, connectors.Finding{
			Severity: connectors.Fatal, Subject: "tables", Problem: "no table to read", Remedy: "correct tables",
		})
	}
	for _, t := range list {
		if err := t.try(ctx, db); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			problem, _, _ := strings.Cut(err.Error(), " token: ") // a token that is none may be a part of a value
			out = append(out, connectors.RefusedWhere(c.Tables, t.spec, t.FullName(), problem))
		}
		found := t.findings()
		if c.Deletes == deletesDetect {
			found = found[1:] // that deletes are not seen
		}
		out = append(out, found...)
	}
	return out, nil
}

// checkSink opens the file if it is there. If it is not, the sink will make it.
func checkSink(ctx context.Context, c *SinkConfig, _ connectors.Env) (out []connectors.Finding, err error) {
	if _, err := os.Stat(c.Path); c.Path != "" && errors.Is(err, fs.ErrNotExist) {
		return []connectors.Finding{{Severity: connectors.Info, Subject: c.Path, Problem: "the file does not exist and will be made"}}, nil
	}
	db, err := open(ctx, &c.File, readOnly...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	if _, err := number(ctx, db, "SELECT count(*) FROM sqlite_schema"); err != nil {
		out = append(out, connectors.Finding{
			Severity: connectors.Fatal, Subject: c.name(), Problem: "not a database that can be read: " + err.Error(), Remedy: "correct path",
		})
	}
	return out, nil
}

// try has the database read the condition of a table, and none of its rows.
func (t *table) try(ctx context.Context, q querier) error {
	if t.where == "" {
		return nil
	}
	_, err := resultColumns(ctx, q, "SELECT * FROM "+t.from+" WHERE ("+t.where+") LIMIT 0")
	return err
}

// findings are the limits of one table.
func (t *table) findings() []connectors.Finding {
	add := func(out []connectors.Finding, s connectors.Severity, problem, remedy string) []connectors.Finding {
		return append(out, connectors.Finding{Severity: s, Subject: t.FullName(), Problem: problem, Remedy: remedy})
	}
	out := add(nil, connectors.Info, "deletes are not seen", "deletes: detect, or mark deleted rows with a column and let it move the cursor")
	if t.unique {
		out = add(out, connectors.Warning, "the cursor "+t.cursor+" is the row's own key: changes of rows are not seen",
			"name a column that grows with every change: cursor: updated_at")
	}
	if t.rowids {
		out = add(out, connectors.Warning,
			"the table is not AUTOINCREMENT: SQLite gives the number of a deleted last row to the next one, which is then not seen",
			"declare the key INTEGER PRIMARY KEY AUTOINCREMENT, or use another cursor")
	}
	if t.nullable && t.nullKeys == nil {
		out = add(out, connectors.Warning,
			"the cursor "+t.cursor+" can be NULL: such rows are read once, and then not seen until it has a value",
			"declare the column NOT NULL")
	}
	if !t.indexed && t.nullKeys == nil {
		out = add(out, connectors.Warning, "no index begins with the cursor "+t.cursor+": every extract reads the whole table",
			"create an index on the cursor and the key")
	}
	if len(t.Key) == 0 {
		out = add(out, connectors.Warning, "the table has no key: records cannot be told apart and stay in one partition",
			"declare a primary key, or set key")
	}
	return out
}
