package endtoend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

// Every row of a dump is one line: the values in double quotes parted by commas, NULL as \N. A value of more than 4096
// bytes is written as <N bytes md5 H>, and a text with U+0000 in it as <N bytes hex H>. A float is written as the double of
// the same value, because MariaDB cuts its text at six digits; of an enum and a set the number stands beside the text, since
// an invalid value and a declared ” look alike. @ stands for the column.
const (
	mariaBytes    = `IF(LENGTH(@) > 4096, CONCAT('"<', LENGTH(@), ' bytes md5 ', MD5(@), '>"'), CONCAT('"0x', HEX(@), '"'))`
	mariaFloat    = `CONCAT('"', @ + 0e0, '"')`
	mariaGeometry = `CONCAT('"SRID=', ST_SRID(@), ';0x', HEX(ST_AsWKB(@)), '"')`
	mariaLabel    = `CONCAT('"', REPLACE(CONVERT(@ USING utf8mb4), '"', '""'), '"')`
	mariaNumber   = `CONCAT('"', CAST(@ + 0 AS UNSIGNED), '"')`
	mariaPlain    = `CONCAT('"', @, '"')`
	mariaText     = `IF(LENGTH(CONVERT(@ USING utf8mb4)) > 4096, CONCAT('"<', LENGTH(CONVERT(@ USING utf8mb4)), ' bytes md5 ', MD5(CONVERT(@ USING utf8mb4)), '>"'),
  IF(LOCATE(CHAR(0 USING utf8mb4), CONVERT(@ USING utf8mb4) COLLATE utf8mb4_bin) > 0, CONCAT('"<', LENGTH(CONVERT(@ USING utf8mb4)), ' bytes hex ', HEX(CONVERT(@ USING utf8mb4)), '>"'), ` + mariaLabel + `))`
)

// dumpColumn is a column as the dump has it.
type dumpColumn struct {
	name, typ, charset string
	bits               int
}

// header is the name in double quotes, and of enums and sets one for the number.
func (c *dumpColumn) header() string {
	name := strings.ReplaceAll(c.name, `"`, `""`)
	if c.typ == "enum" || c.typ == "set" {
		return `"` + name + `","` + name + `+0"`
	}
	return `"` + name + `"`
}

// expressions returns what a row has of the column.
func (c *dumpColumn) expressions() []string {
	var list []string
	switch {
	case strings.HasSuffix(c.typ, "binary"), strings.HasSuffix(c.typ, "blob"):
		list = []string{mariaBytes}
	case c.typ == "bit":
		list = []string{fmt.Sprintf(`CONCAT('"b''', LPAD(BIN(@ + 0), %d, '0'), '''"')`, c.bits)}
	case c.typ == "float":
		list = []string{mariaFloat}
	case slices.Contains([]string{"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}, c.typ):
		list = []string{mariaGeometry}
	case c.typ == "enum", c.typ == "set":
		list = []string{mariaLabel, mariaNumber}
	case c.charset != "":
		list = []string{mariaText}
	default:
		list = []string{mariaPlain}
	}
	for i, e := range list {
		list[i] = strings.ReplaceAll(`IF(@ IS NULL, '\\N', `+e+`)`, "@", mariaName(c.name))
	}
	return list
}

func mariaName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// mariaFile is a name as a dump's file name has it: bytes other than letters, digits, _ and - are written as %XX.
func mariaFile(name string) string {
	var out strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// dumpMaria puts the contents of the tables named in wanted into got. The databases' names have a suffix, which the names
// of files lack.
func dumpMaria(t *testing.T, db *mariaDatabase, suffix string, wanted, got map[string][]byte) {
	t.Helper()
	ctx := context.Background()
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'"); err != nil {
		t.Fatal(err)
	}
	// Rows are in the order of the primary key, without one in that of all columns.
	rows, err := conn.QueryContext(ctx, `SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, COALESCE(c.CHARACTER_SET_NAME, ''), COALESCE(c.NUMERIC_PRECISION, 0), COALESCE(k.SEQ_IN_INDEX, 0)
  FROM information_schema.COLUMNS c LEFT JOIN information_schema.STATISTICS k ON BINARY k.TABLE_SCHEMA = BINARY c.TABLE_SCHEMA AND BINARY k.TABLE_NAME = BINARY c.TABLE_NAME AND BINARY k.COLUMN_NAME = BINARY c.COLUMN_NAME AND k.INDEX_NAME = 'PRIMARY'
  WHERE c.TABLE_SCHEMA IN (?, ?, ?) ORDER BY BINARY c.TABLE_SCHEMA, BINARY c.TABLE_NAME, c.ORDINAL_POSITION`, corpusDatabases[0]+suffix, corpusDatabases[1]+suffix, corpusDatabases[2]+suffix)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	type tableDump struct {
		from    string
		columns []dumpColumn
		key     [16]string
	}
	tables := map[string]*tableDump{}
	for rows.Next() {
		var schema, table string
		var c dumpColumn
		var place int
		if err := rows.Scan(&schema, &table, &c.name, &c.typ, &c.charset, &c.bits, &place); err != nil {
			t.Fatal(err)
		}
		file := mariaFile(strings.TrimSuffix(schema, suffix)) + "." + mariaFile(table) + ".csv"
		if wanted[file] == nil {
			continue
		}
		d := tables[file]
		if d == nil {
			d = &tableDump{from: mariaName(schema) + "." + mariaName(table)}
			tables[file] = d
		}
		d.columns = append(d.columns, c)
		d.key[place] = mariaName(c.name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	rows.Close()
	for file, d := range tables {
		wantedHeader, _, _ := strings.Cut(string(wanted[file]), "\n")
		slices.SortStableFunc(d.columns, func(a, b dumpColumn) int {
			return strings.Index(wantedHeader, a.header()) - strings.Index(wantedHeader, b.header())
		})
		var header, list, all []string
		for i := range d.columns {
			c := &d.columns[i]
			header, list, all = append(header, c.header()), append(list, c.expressions()...), append(all, mariaName(c.name))
		}
		order := slices.DeleteFunc(slices.Clone(d.key[1:]), func(name string) bool { return name == "" })
		if len(order) == 0 {
			order = all
		}
		text, err := dumpLines(ctx, conn, "SELECT CONCAT_WS(',', "+strings.Join(list, ", ")+") FROM "+d.from+" ORDER BY "+strings.Join(order, ", "))
		if gone := (*driver.MySQLError)(nil); errors.As(err, &gone) && (gone.Number == 1054 || gone.Number == 1146 || gone.Number == 1412) {
			continue // the sink has altered the table since the statement was made
		}
		if err != nil {
			t.Fatalf("dump %s: %v", file, err)
		}
		got[file] = []byte(strings.Join(header, ",") + "\n" + text)
	}
}

// dumpLines returns the first column of a query, each value with a line end.
func dumpLines(ctx context.Context, conn *sql.Conn, query string) (string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var text strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", err
		}
		text.WriteString(line + "\n")
	}
	return text.String(), rows.Err()
}
