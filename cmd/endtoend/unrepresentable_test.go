package endtoend

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// metric reads one number of the running daemon.
func (l *line) metric(name, member string) string {
	l.t.Helper()
	answer, err := http.Get("http://" + l.http + "/metrics")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`(?m)^` + name + `\{[^}]*(?:name|sink|source)="` + member + `"[^}]*\} (\S+)$`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// letters counts the dead letters of a sink.
func (l *line) letters(sink string) int {
	l.t.Helper()
	code, out := l.run("consume", "_trunkline.deadletters."+sink, "--from", "earliest", "--format", "json")
	if code != 0 {
		return 0
	}
	return strings.Count(out, `"offset"`)
}

// F19: what MariaDB has no value for follows the sink's policy, from a snapshot and from the stream alike, and is counted.
func TestUnrepresentableValuesOfPostgres(t *testing.T) {
	t.Parallel()
	source := newDatabase(t)
	source.exec("CREATE TABLE sp (id int PRIMARY KEY, nn numeric, np numeric(10,2), f float8, ts timestamptz, tn timestamp, d date, t time, i8 bigint)")
	rows := func(first int) string {
		return fmt.Sprintf(`INSERT INTO sp VALUES (%d, 'NaN', 'NaN', 'NaN', 'infinity', '-infinity', 'infinity', '24:00:00', -9223372036854775808),
			(%d, 'Infinity', 1.10, '-Infinity', '0044-03-15 12:00+00 BC', '294276-12-31 23:59:59.999999', '4713-01-01 BC', '00:00', 9007199254740993),
			(%d, 1.100, 1.10, 0.1, '2026-01-30 12:34:56.123456+02', '9999-12-31', '0001-01-01', '12:34:56.5', 1)`, first, first+1, first+2)
	}
	source.exec(rows(1))
	targets := map[string]*mariaDatabase{"text": newMaria(t), "null": newMaria(t), "dead_letter": newMaria(t)}
	var sinks string
	for policy, target := range targets {
		sinks += target.sink(policy, "unrepresentable: "+policy)
	}
	l := newLine(t, postgresSource(source, "shop", "tables: [public.sp]"), sinks)
	l.start()
	eventually(t, "the snapshot is there", func() bool { return len(targets["null"].list("SELECT id FROM sp")) == 3 })
	source.exec(rows(11), "UPDATE sp SET f = 0.5 WHERE id IN (1, 11)", "INSERT INTO sp (id) VALUES (99)")
	const plain = "CONCAT_WS('|', id %% 10, COALESCE(nn, '-'), COALESCE(np, '-'), COALESCE(f, '-'), COALESCE(ts, '-'), COALESCE(tn, '-'), COALESCE(d, '-'), t, i8%s)"
	fits := "3|1.100|1.10|0.1|2026-01-30 10:34:56.123456|9999-12-31 00:00:00.000000|0001-01-01|12:34:56.500000|1"
	odd := []string{"1|NaN|-|0.5|-|-|-|24:00:00.000000|-9223372036854775808", "2|Infinity|1.10|-|-|-|-|00:00:00.000000|9007199254740993"}
	texts := []string{`|{"np":"NaN","ts":"infinity","tn":"-infinity","d":"infinity"}`,
		`|{"f":"-Infinity","ts":"0044-03-15 12:00:00+00 BC","tn":"294276-12-31 23:59:59.999999","d":"4713-01-01 BC"}`}
	wants := map[string][]string{"dead_letter": {fits}, "null": {odd[0], odd[1], fits}, "text": {odd[0] + texts[0], odd[1] + texts[1], fits}}
	for policy, target := range targets {
		extra := ""
		if policy == "text" {
			extra = ", BINARY _unrepresentable"
		}
		for phase, condition := range map[string]string{"snapshot": "id < 10", "stream": "id BETWEEN 10 AND 20"} {
			wantList(t, policy+", "+phase, wants[policy], func() []string {
				return target.list("SELECT " + fmt.Sprintf(plain, extra) + " FROM sp WHERE " + condition + " ORDER BY id")
			})
		}
	}
	// Each of the four odd rows was written once, and two of them a second time when they were updated: 5 and 4 values, then 4.
	for policy, want := range map[string]string{"text": "26", "null": "26", "dead_letter": "6"} {
		eventually(t, "the count of "+policy, func() bool { return l.metric("trunkline_sink_unrepresentable_total", policy) == want })
	}
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	if n := l.letters("dead_letter"); n != 6 {
		t.Errorf("%d dead letters", n)
	}
}

// F23, F47: zero and partial dates, and U+0000, of MariaDB in PostgreSQL. A column that is NOT NULL in the source takes NULL.
func TestUnrepresentableValuesOfMariaDB(t *testing.T) {
	t.Parallel()
	source := newMaria(t)
	source.exec("CREATE TABLE z (id int PRIMARY KEY, d date NOT NULL, dt datetime NOT NULL, ts timestamp NULL, x text)")
	rows := func(first int) string {
		return fmt.Sprintf("SET STATEMENT sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00' FOR INSERT INTO z VALUES (%d, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00', CONCAT('a', CHAR(0), 'b')), "+
			"(%d, '2026-00-00', '2026-02-31 01:00', '1970-01-01 00:00:01', 'x'), (%d, '2026-01-01', '2026-01-01', NULL, '')", first, first+1, first+2)
	}
	source.exec(rows(1))
	targets := map[string]*database{"text": newDatabase(t), "null": newDatabase(t), "dead_letter": newDatabase(t)}
	var sinks string
	for policy, target := range targets {
		sinks += postgresSink(target, policy, "table: public.{table}", "unrepresentable: "+policy)
	}
	l := newLine(t, source.source("shop"), sinks)
	l.start()
	eventually(t, "the snapshot is there", func() bool { return len(targets["null"].list("SELECT id::text FROM z")) == 3 })
	source.exec(rows(11), "SET STATEMENT sql_mode = '' FOR INSERT INTO z VALUES (99, '2026-01-01', '2026-01-01', NULL, NULL)")
	fits := "3|2026-01-01|2026-01-01 00:00:00|-|"
	odd := []string{"1|-|-|-|-", "2|-|-|1970-01-01 00:00:01+00|x"}
	texts := []string{`|{"d":"0000-00-00","dt":"0000-00-00 00:00:00","ts":"0000-00-00 00:00:00","x":"a\u0000b"}`, `|{"d":"2026-00-00","dt":"2026-02-31 01:00:00"}`}
	wants := map[string][]string{"dead_letter": {fits}, "null": {odd[0], odd[1], fits}, "text": {odd[0] + texts[0], odd[1] + texts[1], fits + "|-"}}
	for policy, target := range targets {
		extra := ""
		if policy == "text" {
			extra = ", coalesce(_unrepresentable::text, '-')"
		}
		target.exec("SET timezone = 'UTC'")
		for phase, condition := range map[string]string{"snapshot": "id < 10", "stream": "id BETWEEN 10 AND 20"} {
			wantList(t, policy+", "+phase, wants[policy], func() []string {
				return target.list("SELECT concat_ws('|', id % 10, coalesce(d::text, '-'), coalesce(dt::text, '-'), coalesce(ts::text, '-'), coalesce(x, '-')" + extra + ") FROM z WHERE " + condition + " ORDER BY id")
			})
		}
	}
	for policy, want := range map[string]string{"text": "12", "null": "12", "dead_letter": "4"} {
		eventually(t, "the count of "+policy, func() bool { return l.metric("trunkline_sink_unrepresentable_total", policy) == want })
	}
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	if n := l.letters("dead_letter"); n != 4 {
		t.Errorf("%d dead letters", n)
	}
}

// The policy is the same for the rows of an extract.
func TestUnrepresentableValuesOfAnExtract(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newMaria(t)
	source.exec("CREATE TABLE sp (id int PRIMARY KEY, f float8, d date)")
	l := newLine(t, fmt.Sprintf("  shop:\n    type: postgres\n    dsn: %q\n    mode: timestamp\n    tables: [{name: public.sp, cursor: id}]\n", source.URL), target.sink("copy", "unrepresentable: text"))
	for first := 1; first < 4; first += 2 { // the first extract, and one of what is new
		source.exec(fmt.Sprintf("INSERT INTO sp VALUES (%d, 'NaN', '2026-01-30'), (%d, 0.5, 'infinity')", first, first+1))
		l.once()
	}
	odd, even := `-|2026-01-30|{"f":"NaN"}`, `0.5|-|{"d":"infinity"}`
	if got := target.list("SELECT CONCAT_WS('|', COALESCE(f, '-'), COALESCE(d, '-'), BINARY _unrepresentable) FROM sp ORDER BY id"); !slices.Equal(got, []string{odd, even, odd, even}) {
		t.Errorf("the target has %v", got)
	}
}

// wantList waits until a list is what it has to be. Rows of several partitions come in any order.
func wantList(t *testing.T, what string, want []string, list func() []string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := list()
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
