package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"
	wire "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/trunkline/trunkline/connectors"
)

// A query of the user stands for a table: its rows have the key and the cursor that the configuration names, and the bound of a
// run is one of cursors for tables too, so nothing else is different. What its columns are the server tells with a result
// of no rows: less than the catalog does of a table, so that text has no length and an enum is text.

// from is what stands after FROM.
func (t *extractTable) from() string {
	if t.spec.Query != "" {
		return t.spec.Subquery()
	}
	return t.name.ident()
}

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

// queries describes the queries of the configuration as tables. One that the server refuses is a finding: it stays refused
// until a person corrects it.
func (c *SourceConfig) queries(ctx context.Context, e *endpoint) (list []*foundTable, refused []connectors.Finding, err error) {
	var conn *client.Conn
	for i := range c.Tables {
		spec := &c.Tables[i]
		if spec.Query == "" {
			continue
		}
		if conn == nil {
			if conn, err = e.dial(ctx); err != nil {
				return nil, nil, settle(err)
			}
			defer conn.Close()
		}
		t := &foundTable{}
		t.name.schema, t.name.name, _ = strings.Cut(spec.Name, ".")
		t.def, err = describeQuery(ctx, conn, spec)
		switch {
		case refuses(err):
			refused = append(refused, connectors.Finding{Severity: connectors.Fatal, Subject: t.name.full(),
				Problem: "has a query that cannot be read: " + describe(err).Error(), Remedy: "correct query, or GRANT SELECT on its tables TO our user"})
		case err != nil:
			return nil, nil, fmt.Errorf("describe query %s: %w", spec.Name, settle(err))
		default:
			list = append(list, t)
		}
	}
	return list, refused, nil
}

// describeQuery returns the columns of a query. They have no key but the one that the configuration names.
func describeQuery(ctx context.Context, conn *client.Conn, spec *connectors.TableSpec) (*definition, error) {
	stop := context.AfterFunc(ctx, func() { conn.Conn.Conn.Close() })
	defer stop()
	result, err := conn.Execute("SELECT * FROM " + spec.Subquery() + " LIMIT 0")
	if err != nil {
		return nil, plain(err)
	}
	defer result.Close()
	def := &definition{Charset: "utf8mb4"}
	for _, f := range result.Fields {
		d := columnDef{Name: string(f.Name), Type: fieldType(f), NotNull: f.Flag&wire.NOT_NULL_FLAG != 0}
		if base := parseType(d.Type).base; base == "longtext" {
			d.Charset = "utf8mb4"
		}
		def.Columns = append(def.Columns, d)
	}
	if len(def.Columns) == 0 {
		return nil, errors.New("it has no columns")
	}
	return def, nil
}

var fieldTypes = map[byte]string{
	wire.MYSQL_TYPE_TINY: "tinyint", wire.MYSQL_TYPE_SHORT: "smallint", wire.MYSQL_TYPE_INT24: "mediumint", wire.MYSQL_TYPE_LONG: "int",
	wire.MYSQL_TYPE_LONGLONG: "bigint", wire.MYSQL_TYPE_YEAR: "year", wire.MYSQL_TYPE_FLOAT: "float", wire.MYSQL_TYPE_DOUBLE: "double",
	wire.MYSQL_TYPE_DATE: "date", wire.MYSQL_TYPE_NEWDATE: "date", wire.MYSQL_TYPE_DATETIME: "datetime", wire.MYSQL_TYPE_TIMESTAMP: "timestamp",
	wire.MYSQL_TYPE_TIME: "time", wire.MYSQL_TYPE_JSON: "json", wire.MYSQL_TYPE_GEOMETRY: "geometry",
}

// fieldType is the type of a column of a result, as information_schema would write it.
func fieldType(f *wire.Field) string {
	const binaryCharset, noDecimals = 63, 31
	name := fieldTypes[f.Type]
	switch f.Type {
	case wire.MYSQL_TYPE_DECIMAL, wire.MYSQL_TYPE_NEWDECIMAL:
		precision := int(f.ColumnLength)
		if f.Decimal > 0 {
			precision-- // the point
		}
		if f.Flag&wire.UNSIGNED_FLAG == 0 {
			precision-- // the sign
		}
		name = fmt.Sprintf("decimal(%d,%d)", min(max(precision, 1), 65), f.Decimal)
	case wire.MYSQL_TYPE_BIT:
		return fmt.Sprintf("bit(%d)", f.ColumnLength)
	case wire.MYSQL_TYPE_DATETIME, wire.MYSQL_TYPE_TIMESTAMP, wire.MYSQL_TYPE_TIME:
		if f.Decimal > 0 && f.Decimal < noDecimals {
			return fmt.Sprintf("%s(%d)", name, f.Decimal)
		}
		return name
	case wire.MYSQL_TYPE_JSON, wire.MYSQL_TYPE_GEOMETRY, wire.MYSQL_TYPE_DATE, wire.MYSQL_TYPE_NEWDATE, wire.MYSQL_TYPE_YEAR:
		return name
	}
	switch {
	case name == "" && f.Charset == binaryCharset:
		return "longblob"
	case name == "":
		return "longtext"
	case f.Flag&wire.UNSIGNED_FLAG != 0:
		return name + " unsigned"
	}
	return name
}
