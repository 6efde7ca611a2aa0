package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// A query of the user stands for a table: it is read by its cursor and key like one, at one moment of the database, so what
// holds for a table's rows holds for its rows. What it joins has no cursor of its own: a change there that does not move
// the query's cursor is not seen.

// validateQuery checks an entry that has a query.
func validateQuery(t *connectors.TableSpec) error {
	switch {
	case strings.ContainsAny(t.Name, "*?"):
		return fmt.Errorf("tables: query of %q needs a name without wildcards, which its records get", t.Name)
	case t.Cursor == "" || len(t.Key) == 0:
		return fmt.Errorf("tables: query of %q needs cursor and key, which name columns of its result", t.Name)
	}
	return nil
}

// queries describes the queries of the settings as tables.
func queries(ctx context.Context, q querier, c *SourceConfig) (list []*table, problems []connectors.Finding, err error) {
	for i := range c.Tables {
		spec := &c.Tables[i]
		if spec.Query == "" {
			continue
		}
		t, problem, remedy := describeQuery(ctx, q, spec)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case problem != "":
			problems = append(problems, connectors.Finding{Severity: connectors.Fatal, Subject: t.FullName(), Problem: problem, Remedy: remedy})
		default:
			list = append(list, t)
		}
	}
	return list, problems, nil
}

// describeQuery makes a table of a query. A problem says why it cannot be read.
func describeQuery(ctx context.Context, q querier, spec *connectors.TableSpec) (t *table, problem, remedy string) {
	schema, name, found := strings.Cut(spec.Name, ".")
	if !found {
		schema, name = schemaName, spec.Name
	}
	t = &table{
		Table: &connectors.Table{Dialect: dialect, Schema: schema, Name: name, Topic: spec.Topic},
		id:    strings.TrimPrefix(spec.Name, schemaName+"."), where: spec.Where, spec: spec,
		from: spec.Subquery(),
	}
	columns, err := resultColumns(ctx, q, "SELECT * FROM "+t.from+" LIMIT 0")
	if err != nil {
		return t, "has a query that cannot be read: " + err.Error(), "correct query"
	}
	at := slices.IndexFunc(columns, func(c column) bool { return strings.EqualFold(c.name, spec.Cursor) })
	if at < 0 {
		return t, "its query has no column " + spec.Cursor + ", which cursor names", "correct cursor or query"
	}
	t.cursor = columns[at].name
	if problem := t.choose(columns, spec); problem != "" {
		return t, problem, "correct columns or key"
	}
	t.setKey(nil, spec.Key)
	for _, k := range t.Key {
		if name := t.Columns[k].Name; name != t.cursor {
			t.tie = append(t.tie, quote(name))
		}
	}
	t.unique = len(t.tie) == 0
	t.nullable = !t.unique
	t.nullKeys = t.tie
	return t, "", ""
}

// resultColumns returns the columns of a query. One that is an expression has no declared type.
func resultColumns(ctx context.Context, q querier, query string) ([]column, error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	described, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	var out []column
	for _, c := range described {
		out = append(out, column{name: c.Name(), declared: c.DatabaseTypeName()})
	}
	return out, rows.Err()
}

// unseen is the condition for the rows that no extract sees.
func (t *table) unseen() string {
	out := quote(t.cursor) + " IS NULL"
	for _, c := range t.nullKeys {
		out += " OR " + c + " IS NULL"
	}
	return out
}

// unseenColumns names the columns of that condition.
func (t *table) unseenColumns() string {
	if len(t.nullKeys) > 0 {
		return "cursor or key"
	}
	return "the cursor column " + t.cursor
}
