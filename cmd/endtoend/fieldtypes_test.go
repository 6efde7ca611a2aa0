package endtoend

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// wantRows compares what the log has of one source: for each record its operation and the new row, sorted.
func wantRows(t *testing.T, l *line, source string, want ...string) {
	t.Helper()
	var got []string
	for _, r := range recordsOf(t, filepath.Join(l.dir, "log"), source) {
		var value struct {
			Op    string
			After json.RawMessage
		}
		if err := json.Unmarshal([]byte(r.value), &value); err != nil {
			t.Fatal(err)
		}
		got = append(got, value.Op+" "+string(value.After))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// bothPhases returns the record of a row from the snapshot, and of the same row under another id from the stream. ID stands
// for the id.
func bothPhases(row, snapshot, stream string) []string {
	return []string{"r " + strings.ReplaceAll(row, "ID", snapshot), "c " + strings.ReplaceAll(row, "ID", stream)}
}

// onePartition is the log's settings where a test reads its records.
const onePartition = "  topics: {partitions: 1}\n"

// F19: NaN, infinities, years before Christ, the scale of 1.10 and 2^53+1 are in the log as they were.
func TestSpecialValuesOfPostgres(t *testing.T) {
	t.Parallel()
	source := newDatabase(t)
	source.exec("CREATE TABLE sp (id int PRIMARY KEY, nn numeric, np numeric(10,2), f float8, ts timestamptz, tn timestamp, d date, t time, i8 bigint)")
	insert := func(id int) string {
		return fmt.Sprintf("INSERT INTO sp VALUES (%d,'NaN','NaN','NaN','infinity','-infinity','infinity','24:00:00',-9223372036854775808), "+
			"(%d,'Infinity',1.10,'-Infinity','0044-03-15 12:00+00 BC','294276-12-31 23:59:59.999999','4713-01-01 BC','00:00',9007199254740993)", id, id+1)
	}
	l := newLineOn(t, onePartition, postgresSource(source, "shop", "tables: [public.sp]"), "  {}\n")
	source.exec(insert(1))
	l.once()
	source.exec(insert(3))
	l.once()
	wantRows(t, l, "shop", append(
		bothPhases(`{"id":ID,"nn":"NaN","np":"NaN","f":"NaN","ts":"infinity","tn":"-infinity","d":"infinity","t":"24:00:00","i8":-9223372036854775808}`, "1", "3"),
		bothPhases(`{"id":ID,"nn":"Infinity","np":"1.10","f":"-Infinity","ts":"0044-03-15 12:00:00+00 BC","tn":"294276-12-31 23:59:59.999999","d":"4713-01-01 BC","t":"00:00:00","i8":9007199254740993}`, "2", "4")...)...)
}

// F21: documents keep their digits, spaces and doubled keys, also where a transform stands in between.
func TestDocumentsKeepTheirText(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	const transform = "transforms: [{drop: {columns: [secret]}}]"
	source.exec("CREATE TABLE doc (id int PRIMARY KEY, b jsonb, j json, n int, secret text)")
	insert := `INSERT INTO doc VALUES (%d, '{"n":1234567890123456789,"d":0.10,"z":18446744073709551615,"e":1e40}', '{"b":1,  "a":2,"a":3}', 0, 'x')`
	pg := newLine(t, postgresSource(source, "shop", "tables: [public.doc]"), postgresSink(target, "copy", transform))
	source.exec(fmt.Sprintf(insert, 1))
	pg.once()
	source.exec(fmt.Sprintf(insert, 2), "UPDATE doc SET n = 1")
	pg.once()
	texts := func(db *database) []string {
		return db.list("SELECT concat_ws('|', id, b::text, j::text, n) FROM doc ORDER BY id")
	}
	if want, got := texts(source), texts(target); len(want) != 2 || !slices.Equal(want, got) || len(target.list("SELECT secret FROM doc")) != 0 {
		t.Errorf("the target has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	from, to := newMaria(t), newMaria(t)
	from.exec("CREATE TABLE doc (id int PRIMARY KEY, j json, n int, secret text)")
	document := `{"b":1.0,  "a":1,"a":2}`
	l := newLine(t, from.source("shop"), to.sink("copy", transform))
	from.exec("INSERT INTO doc VALUES (1, '" + document + "', 0, 'x')")
	l.once()
	from.exec("INSERT INTO doc VALUES (2, '"+document+"', 0, 'x')", "UPDATE doc SET n = 1")
	l.once()
	if got := to.list("SELECT CONCAT_WS('|', id, BINARY j, n) FROM doc ORDER BY id"); !slices.Equal(got, []string{"1|" + document + "|1", "2|" + document + "|1"}) {
		t.Errorf("the target has %v", got)
	}
}

// F22: unsigned numbers are positive, BIT(64) is 64 digits, TINYINT(1) is a number; PostgreSQL gets numeric(20,0).
func TestUnsignedNumbersAndBits(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newDatabase(t)
	source.exec("CREATE TABLE u (id bigint unsigned PRIMARY KEY, tu tinyint unsigned, mu mediumint unsigned, ti tinyint(1), b64 bit(64))")
	zeros := strings.Repeat("0", 62)
	insert := func(big, small string) string {
		return "INSERT INTO u VALUES (" + big + ", 255, 16777215, 2, b'1" + zeros + "1'), (" + small + ", 0, 0, -1, b'0')"
	}
	l := newLineOn(t, onePartition, source.source("shop", "snapshot_chunk: 1"), postgresSink(target, "copy", "table: public.{table}"))
	source.exec(insert("18446744073709551615", "5"))
	l.once()
	source.exec(insert("18446744073709551614", "6"))
	l.once()
	wantRows(t, l, "shop", append(
		bothPhases(`{"id":ID,"tu":255,"mu":16777215,"ti":2,"b64":"1`+zeros+`1"}`, "18446744073709551615", "18446744073709551614"),
		bothPhases(`{"id":ID,"tu":0,"mu":0,"ti":-1,"b64":"`+zeros+`00"}`, "5", "6")...)...)
	if got := target.list("SELECT concat_ws('|', id, ti, format_type(atttypid, atttypmod)) FROM u, pg_attribute WHERE attrelid = 'u'::regclass AND attname = 'id' ORDER BY id"); !slices.Equal(got,
		[]string{"5|-1|numeric(20,0)", "6|-1|numeric(20,0)", "18446744073709551614|2|numeric(20,0)", "18446744073709551615|2|numeric(20,0)"}) {
		t.Errorf("the target has %v", got)
	}
}

// F23: the zero date, NULL and 1970 are three things in the log, from both phases.
func TestZeroDatesAreNotNull(t *testing.T) {
	t.Parallel()
	source := newMaria(t)
	source.exec("CREATE TABLE z (id int PRIMARY KEY, d date NOT NULL, dt datetime NOT NULL, ts timestamp NULL)")
	insert := func(id int) string {
		return fmt.Sprintf("SET STATEMENT sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00' FOR INSERT INTO z VALUES (%d,'0000-00-00','0000-00-00 00:00:00','0000-00-00'), "+
			"(%d,'2026-00-00','2026-02-00 01:00','1970-01-01 00:00:01'), (%d,'2026-01-01','2026-01-01',NULL)", id, id+1, id+2)
	}
	l := newLineOn(t, onePartition, source.source("shop"), "  {}\n")
	source.exec(insert(1))
	l.once()
	source.exec(insert(4))
	l.once()
	wantRows(t, l, "shop", slices.Concat(
		bothPhases(`{"id":ID,"d":"0000-00-00","dt":"0000-00-00 00:00:00","ts":"0000-00-00 00:00:00"}`, "1", "4"),
		bothPhases(`{"id":ID,"d":"2026-00-00","dt":"2026-02-00 01:00:00","ts":"1970-01-01T00:00:01Z"}`, "2", "5"),
		bothPhases(`{"id":ID,"d":"2026-01-01","dt":"2026-01-01T00:00:00","ts":null}`, "3", "6"))...)
}

// F24: labels as they were when the row was written, never their numbers; the invalid value is the empty text.
func TestLabelsOutliveTheirList(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newDatabase(t)
	source.exec("CREATE TABLE e (id int PRIMARY KEY, e enum('0','1','a,b'), s set('x','y','z'))", "INSERT INTO e VALUES (1,'1','x,z')")
	l := newLineOn(t, onePartition, source.source("shop"), postgresSink(target, "copy", "table: public.{table}"))
	l.once()
	source.exec("INSERT INTO e VALUES (2,'1','x,z')", "SET STATEMENT sql_mode = '' FOR INSERT INTO e VALUES (3,'bogus','')")
	l.once()
	source.exec("INSERT INTO e VALUES (4,'1','y')", "ALTER TABLE e MODIFY e enum('new','0','1','a,b')", "INSERT INTO e VALUES (5,'1','y')")
	l.once()
	wantRows(t, l, "shop", `r {"id":1,"e":"1","s":"x,z"}`, `c {"id":2,"e":"1","s":"x,z"}`, `c {"id":3,"e":"","s":""}`, `c {"id":4,"e":"1","s":"y"}`, `c {"id":5,"e":"1","s":"y"}`)
	if got := target.list("SELECT concat_ws('|', id, e, s) FROM e ORDER BY id"); !slices.Equal(got, []string{"1|1|x,z", "2|1|x,z", "3||", "4|1|y", "5|1|y"}) {
		t.Errorf("the target has %v", got)
	}
}

// F25: durations beyond a day and below zero stay what they are, in PostgreSQL as intervals.
func TestTimesBeyondADay(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newDatabase(t)
	source.exec("CREATE TABLE tt (id int PRIMARY KEY, t time, t2 time(2), t6 time(6))")
	insert := func(id int) string {
		return fmt.Sprintf("INSERT INTO tt VALUES (%d,'-838:59:59','-00:00:00.01','838:59:59.999999'), (%d,'24:00:00','-16:08:04.25','-00:00:00.000001')", id, id+1)
	}
	l := newLineOn(t, onePartition, source.source("shop"), postgresSink(target, "copy", "table: public.{table}"))
	source.exec(insert(1))
	l.once()
	source.exec(insert(3))
	l.once()
	wantRows(t, l, "shop", append(
		bothPhases(`{"id":ID,"t":"-838:59:59","t2":"-00:00:00.01","t6":"838:59:59.999999"}`, "1", "3"),
		bothPhases(`{"id":ID,"t":"24:00:00","t2":"-16:08:04.25","t6":"-00:00:00.000001"}`, "2", "4")...)...)
	odd := "-838:59:59|-00:00:00.01|838:59:59.999999"
	even := "24:00:00|-16:08:04.25|-00:00:00.000001"
	if got := target.list("SELECT concat_ws('|', t, t2, t6) FROM tt ORDER BY id"); !slices.Equal(got, []string{odd, even, odd, even}) {
		t.Errorf("the target has %v", got)
	}
}

// F27: an instant is the same whatever zones server, process and target have; a wall clock has no zone.
func TestInstantsAcrossZones(t *testing.T) {
	t.Setenv("TZ", "Asia/Tokyo") // of the program
	s := maria.StartForTest(t, maria.Options{Unsafe: true, Settings: map[string]string{"default_time_zone": "-05:00"}})
	target := newDatabase(t)
	mariaScript(t, s, "", []byte("CREATE DATABASE zones"))
	mariaScript(t, s, "zones", []byte("CREATE TABLE w (id int PRIMARY KEY, ts timestamp NULL, dt datetime, n int); "+
		"INSERT INTO w VALUES (1,'2026-01-30 12:34:56','2026-01-30 12:34:56',0),(2,'2026-11-01 01:30:00','2026-03-08 02:30:00',0),(3,'2026-11-01 00:30:00',NULL,0)"))
	l := newLineOn(t, onePartition, fmt.Sprintf("  shop:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    tables: [zones.w]\n", s.DSN("zones")), postgresSink(target, "copy", "table: public.{table}"))
	l.once()
	mariaScript(t, s, "zones", []byte("UPDATE w SET n = 1"))
	l.once()
	var want []string
	for _, row := range []string{`{"id":1,"ts":"2026-01-30T17:34:56Z","dt":"2026-01-30T12:34:56","n":N}`, `{"id":2,"ts":"2026-11-01T06:30:00Z","dt":"2026-03-08T02:30:00","n":N}`,
		`{"id":3,"ts":"2026-11-01T05:30:00Z","dt":null,"n":N}`} {
		want = append(want, "r "+strings.Replace(row, "N", "0", 1), "u "+strings.Replace(row, "N", "1", 1))
	}
	wantRows(t, l, "shop", want...)
	target.exec("SET timezone = 'UTC'")
	if got := target.list("SELECT concat_ws('|', ts, coalesce(dt::text, '-'), n) FROM w ORDER BY id"); !slices.Equal(got, []string{"2026-01-30 17:34:56+00|2026-01-30 12:34:56|1",
		"2026-11-01 06:30:00+00|2026-03-08 02:30:00|1", "2026-11-01 05:30:00+00|-|1"}) {
		t.Errorf("the target has %v", got)
	}
}
