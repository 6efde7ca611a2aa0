package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// typeCase is a column and the values that go into it, with the text that both phases must show.
type typeCase struct {
	column string
	values []string // SQL
	want   []string // of the values; ~kind in front when the kind is not the usual one
}

var typeCases = []typeCase{
	{"tinyint", []string{"-128", "127"}, []string{"-128", "127"}},
	{"tinyint unsigned", []string{"0", "255"}, []string{"0", "255"}},
	{"tinyint(1)", []string{"2", "-1"}, []string{"2", "-1"}},
	{"smallint unsigned", []string{"65535", "0"}, []string{"65535", "0"}},
	{"mediumint", []string{"-8388608", "8388607"}, []string{"-8388608", "8388607"}},
	{"mediumint unsigned", []string{"16777215", "8388608"}, []string{"16777215", "8388608"}},
	{"int(10) unsigned zerofill", []string{"4294967295", "7"}, []string{"4294967295", "7"}},
	{"bigint", []string{"-9223372036854775808", "9223372036854775807"}, []string{"-9223372036854775808", "9223372036854775807"}},
	{"bigint unsigned", []string{"18446744073709551615", "9223372036854775808"}, []string{"18446744073709551615", "9223372036854775808"}},
	{"bit(1)", []string{"b'1'", "b'0'"}, []string{"1", "0"}},
	{"bit(12)", []string{"b'100000000001'", "1"}, []string{"100000000001", "000000000001"}},
	{"bit(64)", []string{"0x8000000000000001", "0"}, []string{"1" + strings.Repeat("0", 62) + "1", strings.Repeat("0", 64)}},
	{"decimal(10,2)", []string{"-12345678.90", "0.05"}, []string{"-12345678.90", "0.05"}},
	{"decimal(65,30)", []string{"99999999999999999999999999999999999.999999999999999999999999999999", "-0.000000000000000000000000000001"},
		[]string{"99999999999999999999999999999999999.999999999999999999999999999999", "-0.000000000000000000000000000001"}},
	{"decimal(30,30)", []string{"0.123456789012345678901234567890", "-0.5"}, []string{"0.123456789012345678901234567890", "-0.500000000000000000000000000000"}},
	{"decimal(18,9) zerofill", []string{"1.5", "123456789.987654321"}, []string{"1.500000000", "123456789.987654321"}},
	{"decimal(20,0)", []string{"1000000000", "-99999999999999999999"}, []string{"1000000000", "-99999999999999999999"}},
	{"float", []string{"16777216", "0.1"}, []string{"16777216", "0.1"}},
	{"float(7,4)", []string{"999.9999", "1.1"}, []string{"999.9999", "1.1"}},
	{"double", []string{"0.1", "1.7976931348623157e308"}, []string{"0.1", "1.7976931348623157e+308"}},
	{"double unsigned", []string{"5e-324", "1e23"}, []string{"5e-324", "1e+23"}},
	{"date", []string{"'0000-00-00'", "'2026-00-00'"}, []string{"0000-00-00", "2026-00-00"}},
	{"date", []string{"'9999-12-31'", "'2026-02-31'"}, []string{"9999-12-31", "2026-02-31"}},
	{"datetime", []string{"'0000-00-00 00:00:00'", "'2026-02-00 01:00:00'"}, []string{"0000-00-00 00:00:00", "2026-02-00 01:00:00"}},
	{"datetime(6)", []string{"'2026-01-30 12:34:56.000001'", "'1000-01-01 00:00:00'"}, []string{"2026-01-30T12:34:56.000001", "1000-01-01T00:00:00.000000"}},
	{"datetime(3)", []string{"'2026-02-31 12:34:56.125'", "'9999-12-31 23:59:59.999'"}, []string{"2026-02-31 12:34:56.125", "9999-12-31T23:59:59.999"}},
	{"timestamp NULL", []string{"'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'"}, []string{"0000-00-00 00:00:00", "1970-01-01T00:00:01Z"}},
	{"timestamp(6) NULL", []string{"'2026-01-30 12:34:56.123456'", "'2038-01-19 03:14:07.999999'"}, []string{"2026-01-30T12:34:56.123456Z", "2038-01-19T03:14:07.999999Z"}},
	{"timestamp(1) NULL", []string{"'2026-01-30 12:34:56.1'", "NULL"}, []string{"2026-01-30T12:34:56.1Z", "null"}},
	{"time", []string{"'-838:59:59'", "'24:00:00'"}, []string{"-838:59:59", "24:00:00"}},
	{"time(1)", []string{"'-00:00:00.1'", "'100:00:00.9'"}, []string{"-00:00:00.1", "100:00:00.9"}},
	{"time(2)", []string{"'-00:00:00.01'", "'-16:08:04.25'"}, []string{"-00:00:00.01", "-16:08:04.25"}},
	{"time(3)", []string{"'-00:00:01.250'", "'838:59:59.999'"}, []string{"-00:00:01.250", "838:59:59.999"}},
	{"time(6)", []string{"'838:59:59.999999'", "'-00:00:00.000001'"}, []string{"838:59:59.999999", "-00:00:00.000001"}},
	{"year", []string{"0", "2155"}, []string{"0", "2155"}},
	{"char(5)", []string{"'ab  '", "''"}, []string{"ab", ""}},
	{"varchar(300)", []string{"'trailing  '", "REPEAT('ü', 300)"}, []string{"trailing  ", "\xc3\xbc\xc3\xbc…600"}},
	{"char(200) CHARACTER SET utf8mb4", []string{"REPEAT('😀', 200)", "'x'"}, []string{"😀…800", "x"}},
	{"varchar(20) CHARACTER SET latin1", []string{"'€uro\u00ff'", "0x81"}, []string{"€uroÿ", "\u0081"}},
	{"text CHARACTER SET latin2", []string{"'Łódź'", "'x'"}, []string{"Łódź", "x"}},
	{"text CHARACTER SET cp1251", []string{"'Привет'", "'x'"}, []string{"Привет", "x"}},
	{"text CHARACTER SET sjis", []string{"'日本'", "'ｱ'"}, []string{"日本", "ｱ"}},
	{"text CHARACTER SET ujis", []string{"'日本'", "'x'"}, []string{"日本", "x"}},
	{"text CHARACTER SET gbk", []string{"'中文'", "'x'"}, []string{"中文", "x"}},
	{"text CHARACTER SET big5", []string{"'中文'", "'x'"}, []string{"中文", "x"}},
	{"text CHARACTER SET euckr", []string{"'한국'", "'x'"}, []string{"한국", "x"}},
	{"text CHARACTER SET ucs2", []string{"'añ日'", "''"}, []string{"añ日", ""}},
	{"text CHARACTER SET utf16", []string{"'a😀'", "''"}, []string{"a😀", ""}},
	{"text CHARACTER SET utf16le", []string{"'a😀'", "''"}, []string{"a😀", ""}},
	{"text CHARACTER SET utf32", []string{"'a😀'", "''"}, []string{"a😀", ""}},
	{"longtext", []string{"'a\\0b'", "'line\\r\\n'"}, []string{"a\x00b", "line\r\n"}},
	{"binary(4)", []string{"0x0100", "''"}, []string{"0x01000000", "0x00000000"}},
	{"varbinary(10)", []string{"0x00FF00", "''"}, []string{"0x00ff00", "0x"}},
	{"blob", []string{"0xC3280000", "''"}, []string{"0xc3280000", "0x"}},
	{"enum('0','1','a,b','it''s')", []string{"'1'", "'bogus'"}, []string{"1", ""}},
	{"enum('x','ü') CHARACTER SET latin1", []string{"'ü'", "'x'"}, []string{"ü", "x"}},
	{"set('x','y','z')", []string{"'x,z'", "''"}, []string{"x,z", ""}},
	{"json", []string{`'{"b":1.0,  "a":1,"a":2}'`, "'null'"}, []string{`{"b":1.0,  "a":1,"a":2}`, "null"}},
	{"uuid", []string{"'123e4567-e89b-12d3-a456-426655440000'", "'0188d7ec-7a3c-7b11-bf0a-8b65b7a0f200'"},
		[]string{"123e4567-e89b-12d3-a456-426655440000", "0188d7ec-7a3c-7b11-bf0a-8b65b7a0f200"}},
	{"uuid", []string{"'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"},
		[]string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"}},
	{"inet4", []string{"'1.2.3.0'", "'0.0.0.0'"}, []string{"1.2.3.0", "0.0.0.0"}},
	{"inet6", []string{"'::ffff:1.2.3.4'", "'::1:2'"}, []string{"::ffff:1.2.3.4", "::0.1.0.2"}},
	{"inet6", []string{"'::'", "'2001:db8::'"}, []string{"::", "2001:db8::"}},
	{"inet6", []string{"'::1'", "'1:0:0:2:0:0:0:3'"}, []string{"::1", "1:0:0:2::3"}},
	{"varchar(50) COMPRESSED", []string{"REPEAT('ab', 20)", "''"}, []string{strings.Repeat("ab", 20), ""}},
	{"blob COMPRESSED", []string{"REPEAT('\\0', 300)", "'x'"}, []string{"0x" + strings.Repeat("00", 300), "0x78"}},
	{"longtext COMPRESSED CHARACTER SET latin1", []string{"REPEAT('ü', 500)", "'x'"}, []string{"\xc3\xbc\xc3\xbc…1000", "x"}},
	{"point", []string{"ST_GeomFromText('POINT(1 2)', 4326)", "NULL"},
		[]string{"0xe61000000101000000000000000000f03f0000000000000040", "null"}},
}

// wantTypes compares every value of the first changes with the cases.
func wantTypes(t *testing.T, typeCases []typeCase, changes []connectors.Change, phase string) {
	t.Helper()
	seen := map[int64]bool{}
	for _, c := range changes {
		id := c.After[0].Int()
		for i, tc := range typeCases {
			got := valueText(c.After[1+i])
			if id <= 2 && got != tc.want[id-1] {
				t.Errorf("%s: %s %s is %q (%v), want %q", phase, tc.column, tc.values[id-1], got, c.After[1+i].Kind(), tc.want[id-1])
			}
			if id == 3 && got != "null" && !strings.Contains(tc.column, "NOT NULL") {
				t.Errorf("%s: NULL of %s is %q", phase, tc.column, got)
			}
		}
		seen[id] = true
	}
	if len(seen) != 3 {
		t.Errorf("%s: rows %v, want 1 to 3", phase, seen)
	}
}

// createTypes makes two tables with a column for each case, and returns what fills one of them.
func createTypes(h *harness, typeCases []typeCase) func(table string) {
	var columns, first, second []string
	for i, c := range typeCases {
		columns = append(columns, fmt.Sprintf("c%d %s", i, c.column))
		first, second = append(first, c.values[0]), append(second, c.values[1])
	}
	h.exec("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
	for _, table := range []string{"before_it", "after_it"} {
		h.exec("CREATE TABLE " + table + " (id int PRIMARY KEY, " + strings.Join(columns, ", ") + ")")
	}
	return func(table string) {
		h.exec("INSERT INTO "+table+" VALUES (1, "+strings.Join(first, ", ")+")", "INSERT INTO "+table+" VALUES (2, "+strings.Join(second, ", ")+")",
			"INSERT INTO "+table+" (id) VALUES (3)")
	}
}

func TestEveryTypeMeansTheSameInBothPhases(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true}) // of its own: the setting is the server's
	for _, metadata := range []string{"NO_LOG", "MINIMAL", "FULL"} {
		t.Run(metadata, func(t *testing.T) {
			if _, err := server.CreateDatabase(t.Context(), metadata); err != nil {
				t.Fatal(err)
			}
			h := harnessOn(t, server, metadata, "before_it after_it")
			h.exec("SET GLOBAL binlog_row_metadata = '" + metadata + "'")
			h.compareTypes(typeCases)
		})
	}
}

// MySQL 5.6 tells nothing of columns in its binary log: what a value means comes from the catalog alone.
func TestEveryTypeMeansTheSameInMySQL(t *testing.T) {
	t.Parallel()
	db := mysqlDatabase(t)
	var cases []typeCase
	for _, c := range typeCases {
		base, _, _ := strings.Cut(c.column, " ")
		if base != "json" && base != "uuid" && base != "inet4" && base != "inet6" && !strings.Contains(c.column, "COMPRESSED") {
			c.want = slices.Clone(c.want)
			for i, want := range c.want {
				if strings.HasPrefix(want, "838:59:59.9") { // a TIME of MySQL ends with the whole second
					c.want[i] = "838:59:59." + strings.Repeat("0", len(want)-len("838:59:59."))
				}
			}
			cases = append(cases, c)
		}
	}
	if len(cases) < 55 {
		t.Fatalf("only %d types are left", len(cases))
	}
	harnessOn(t, db.Server, db.Name, "before_it after_it").compareTypes(cases)
}

// compareTypes reads values of every type in a snapshot and in the stream.
func (h *harness) compareTypes(typeCases []typeCase) {
	h.t.Helper()
	fill := createTypes(h, typeCases)
	fill("before_it")
	h.open()
	h.catchUp()
	if len(h.changes) != 3 {
		h.t.Fatalf("%d rows in the snapshot", len(h.changes))
	}
	wantTypes(h.t, typeCases, h.changes, "snapshot")
	fill("after_it")
	h.untilCount(6)
	wantTypes(h.t, typeCases, h.changes[3:], "stream")
	for i := range typeCases {
		for k := range 3 {
			if a, b := h.changes[k].After[1+i], h.changes[3+k].After[1+i]; !a.Equal(b) {
				h.t.Errorf("%s: snapshot %v %q, stream %v %q", typeCases[i].column, a.Kind(), valueText(a), b.Kind(), valueText(b))
			}
		}
	}
}
