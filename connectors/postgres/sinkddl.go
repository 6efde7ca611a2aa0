package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/trunkline/trunkline/connectors"
)

// dialect is the name under which a table of PostgreSQL travels: Table.Dialect.
const dialect = "postgres"

// kindTypes are the types of columns that come from another system. They take every value of their kind.
var kindTypes = map[connectors.Kind]string{
	connectors.Bool:        "boolean",
	connectors.Int:         "bigint",
	connectors.Uint:        "numeric(20,0)",
	connectors.Float:       "double precision",
	connectors.Text:        "text",
	connectors.Bytes:       "bytea",
	connectors.Decimal:     "numeric",
	connectors.JSON:        "json", // not jsonb, which changes the text and refuses some of it
	connectors.Date:        "date",
	connectors.Time:        "time",
	connectors.Timestamp:   "timestamp",
	connectors.TimestampTZ: "timestamptz",
	connectors.Interval:    "interval",
	connectors.Bits:        "bit varying",
	connectors.Array:       "jsonb",
	connectors.Map:         "jsonb",
}

// columnType returns the type of a column in the target, and statements that must run before it can be used.
func (s *Sink) columnType(ctx context.Context, schema string, table *connectors.Table, c connectors.Column) (typ string, before []string, err error) {
	if table.Dialect != dialect || c.Type == "" {
		if typ = kindTypes[c.Kind]; typ == "" {
			typ = "text"
		}
		return typ, nil, nil
	}
	name := parseTypeName(c.Type)
	if len(c.Labels) > 0 {
		return s.enumType(ctx, schema, name, c.Labels)
	}
	known, err := s.typeExists(ctx, c.Type)
	if err != nil {
		return "", nil, err
	}
	if known {
		return c.Type, nil, nil
	}
	// A type of an extension stands in whatever schema the extension was created in.
	var place string
	err = s.conn.QueryRow(ctx, `SELECT n.nspname::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
		WHERE t.typname = $1 AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
		ORDER BY n.nspname = $2 DESC, n.nspname = 'public' DESC, n.nspname LIMIT 1`, name.name, name.schema).Scan(&place)
	if err == pgx.ErrNoRows {
		return "text", nil, nil
	}
	name.schema = place
	return name.sql(), nil, err
}

func (s *Sink) typeExists(ctx context.Context, typ string) (known bool, err error) {
	err = s.conn.QueryRow(ctx, "SELECT to_regtype($1) IS NOT NULL", typ).Scan(&known)
	return known, err
}

// enumType returns an enum of the target with at least these labels, and the statements that make it so.
func (s *Sink) enumType(ctx context.Context, schema string, name typeName, labels []string) (typ string, before []string, err error) {
	if name.schema == "" {
		name.schema = schema
	}
	name.modifier = ""
	array := name.array
	name.array = ""
	rows, err := s.conn.Query(ctx, `SELECT e.enumlabel::text FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace
		WHERE t.typname = $1 AND n.nspname = $2 ORDER BY e.enumsortorder`, name.name, name.schema)
	if err != nil {
		return "", nil, err
	}
	have, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", nil, err
	}
	if len(have) == 0 {
		known, err := s.typeExists(ctx, name.sql())
		if err != nil || known { // of that name, and no enum
			return "text", nil, err
		}
		quoted := make([]string, len(labels))
		for i, l := range labels {
			quoted[i] = literal(l)
		}
		if before, err = s.createSchema(ctx, name.schema); err != nil {
			return "", nil, err
		}
		before = append(before, "CREATE TYPE "+name.sql()+" AS ENUM ("+strings.Join(quoted, ", ")+")")
	} else {
		for i, l := range labels {
			if slices.Contains(have, l) {
				continue
			}
			add := "ALTER TYPE " + name.sql() + " ADD VALUE IF NOT EXISTS " + literal(l)
			if i > 0 {
				add += " AFTER " + literal(labels[i-1])
			}
			before = append(before, add)
		}
	}
	return name.sql() + array, before, nil
}

// createSchema returns the statement that creates a schema, none when it exists: CREATE SCHEMA IF NOT EXISTS asks for
// the right to create one even then.
func (s *Sink) createSchema(ctx context.Context, schema string) ([]string, error) {
	var exists bool
	err := s.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&exists)
	if err != nil || exists {
		return nil, err
	}
	return []string{"CREATE SCHEMA IF NOT EXISTS " + quote(schema)}, nil
}

// createTable returns the statements that create the target of a table.
func (s *Sink) createTable(ctx context.Context, table *connectors.Table) ([]string, error) {
	schema, name := s.template.expand(table)
	statements, err := s.createSchema(ctx, schema)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, c := range table.Columns {
		if c.Generated && table.Dialect == dialect {
			continue
		}
		typ, before, err := s.columnType(ctx, schema, table, c)
		if err != nil {
			return nil, err
		}
		for _, b := range before {
			if !slices.Contains(statements, b) {
				statements = append(statements, b)
			}
		}
		parts = append(parts, quote(c.Name)+" "+typ)
	}
	if s.config.Deletes == deletesSoft {
		parts = append(parts, softColumn+" boolean NOT NULL DEFAULT false")
	}
	if key := keyNames(table); len(key) > 0 && s.config.Write == writeUpsert {
		parts = append(parts, "PRIMARY KEY ("+strings.Join(key, ", ")+")")
	}
	sql := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", qualified(schema, name), strings.Join(parts, ", "))
	return append(statements, sql), nil
}

// keyNames returns the quoted names of a table's key.
func keyNames(table *connectors.Table) []string {
	var key []string
	for _, k := range table.Key {
		key = append(key, quote(table.Columns[k].Name))
	}
	return key
}

// typeName is a type as format_type writes it, in its parts: "My schema"."Mood"(3)[].
type typeName struct {
	schema, name, modifier, array string
}

func (n typeName) sql() string {
	text := quote(n.name) + n.modifier + n.array
	if n.schema != "" {
		text = quote(n.schema) + "." + text
	}
	return text
}

// parseTypeName parts the name of a type. It never fails: what it does not understand becomes part of the name.
func parseTypeName(text string) typeName {
	var n typeName
	for strings.HasSuffix(text, "[]") {
		text, n.array = text[:len(text)-2], n.array+"[]"
	}
	first, rest := parseIdentifier(text)
	if after, ok := strings.CutPrefix(rest, "."); ok {
		n.schema = first
		first, rest = parseIdentifier(after)
	}
	n.name, n.modifier = first, rest
	if n.modifier != "" && n.modifier[0] != '(' {
		n.name, n.modifier = n.name+n.modifier, ""
	}
	return n
}

// parseIdentifier takes one identifier, quoted or not, off the text.
func parseIdentifier(text string) (name, rest string) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ".(")
		if end < 0 {
			return text, ""
		}
		return text[:end], text[end:]
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] == '"' {
			if i+1 == len(text) || text[i+1] != '"' {
				return b.String(), text[i+1:]
			}
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}
