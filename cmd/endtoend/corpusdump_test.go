package endtoend

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// dumpSettings are those that the expected files were made with.
var dumpSettings = []string{"SET client_min_messages = warning", "SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET IntervalStyle = 'postgres'",
	"SET bytea_output = 'hex'", "SET extra_float_digits = 1", "SET lc_monetary = 'C'", "SET search_path = ''", "SET row_security = off"}

// dumpStatements returns a file name and a COPY statement for each table of the corpus' schemas, parted by a tab. Rows are
// in the order of the primary key, without one in that of all columns as text. NULL is \N. A value of more than 4096 bytes
// is written as <N bytes md5 H>, of the raw bytes for bytea, else of its text. format('%s', v) is the output form of a value,
// which v::text is not: that strips the padding of char(n) and adds /32 to inet. Bytes of a name that a file name
// does not bear are written as %XX. ONLY keeps an inheritance parent apart from its children.
const dumpStatements = `WITH t AS (
  SELECT c.oid, n.nspname, c.relname, c.relkind
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'public') AND n.nspname !~ '^pg_'
), cols AS (
  SELECT t.oid, string_agg(
      CASE WHEN a.atttypid = 'bytea'::regtype
             THEN format('CASE WHEN length(%1$I) > 4096 THEN format(''<%%s bytes md5 %%s>'', length(%1$I), md5(%1$I)) WHEN num_nulls(%1$I) = 0 THEN format(''%%s'', %1$I) END AS %1$I', a.attname)
           WHEN a.attlen = -1
             THEN format('CASE WHEN octet_length(format(''%%s'', %1$I)) > 4096 THEN format(''<%%s bytes md5 %%s>'', octet_length(format(''%%s'', %1$I)), md5(format(''%%s'', %1$I))) WHEN num_nulls(%1$I) = 0 THEN format(''%%s'', %1$I) END AS %1$I', a.attname)
           ELSE format('%I', a.attname) END, ', ' ORDER BY a.attnum) AS list,
    string_agg(format('format(''%%s'', %I) COLLATE "C"', a.attname), ', ' ORDER BY a.attnum) AS all_text
  FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped GROUP BY t.oid
), pk AS (
  SELECT i.indrelid AS oid, string_agg(format('x.%I', a.attname) || CASE WHEN a.attcollation <> 0 THEN ' COLLATE "C"' ELSE '' END, ', ' ORDER BY k.n) AS list
  FROM t JOIN pg_index i ON i.indrelid = t.oid AND i.indisprimary
  CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(att, n)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.att GROUP BY i.indrelid
), enc AS (
  SELECT t.oid, (SELECT string_agg(CASE WHEN ch ~ '^[A-Za-z0-9_-]$' THEN ch ELSE regexp_replace(upper(encode(convert_to(ch, 'UTF8'), 'hex')), '(..)', '%\1', 'g') END, '' ORDER BY n) FROM regexp_split_to_table(t.nspname, '') WITH ORDINALITY x(ch, n)) AS s,
    (SELECT string_agg(CASE WHEN ch ~ '^[A-Za-z0-9_-]$' THEN ch ELSE regexp_replace(upper(encode(convert_to(ch, 'UTF8'), 'hex')), '(..)', '%\1', 'g') END, '' ORDER BY n) FROM regexp_split_to_table(t.relname, '') WITH ORDINALITY x(ch, n)) AS r
  FROM t
)
SELECT enc.s || '.' || enc.r || E'.csv\t' || format('COPY (SELECT %s FROM %s %I.%I AS x ORDER BY %s) TO STDOUT (FORMAT csv, HEADER true, NULL ''\N'')',
    cols.list, CASE t.relkind WHEN 'p' THEN '' ELSE 'ONLY' END, t.nspname, t.relname, COALESCE(pk.list, cols.all_text))
FROM t JOIN enc USING (oid) JOIN cols USING (oid) LEFT JOIN pk USING (oid)
ORDER BY 1`

// dumpCorpus puts the contents of the tables named in wanted into got.
func dumpCorpus(t *testing.T, db *database, wanted, got map[string][]byte) {
	t.Helper()
	db.exec(dumpSettings...)
	for _, line := range db.list(dumpStatements) {
		name, statement, _ := strings.Cut(line, "\t")
		if wanted[name] == nil {
			continue
		}
		var text bytes.Buffer
		_, err := db.conn.PgConn().CopyTo(context.Background(), &text, statement)
		if changed := (*pgconn.PgError)(nil); errors.As(err, &changed) && strings.HasPrefix(changed.Code, "42") {
			continue // the sink has altered the table since the statement was made
		}
		if err != nil {
			t.Fatalf("dump %s: %v", name, err)
		}
		got[name] = text.Bytes()
	}
}

// countRows counts the rows of a dump, whose values may hold line ends.
func countRows(t *testing.T, dump []byte) int {
	t.Helper()
	r := csv.NewReader(bytes.NewReader(dump))
	r.FieldsPerRecord = -1
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return len(records) - 1
}
