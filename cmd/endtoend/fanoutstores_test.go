package endtoend

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/localprocess"
)

// copied is a store that a sink keeps copies of tables in.
type copied struct {
	name   string
	config string // of the sink
	// rows returns the rows of a table from an id on, as id|n|note and sorted; nil: it can't be read now.
	rows func(table string, from int) []string
}

// fanSink is the settings of a sink that takes every topic.
func fanSink(name, kind string, lines ...string) string {
	return fmt.Sprintf("  %s:\n    type: %s\n    topics: [\"*\"]\n%s", name, kind, settings(lines))
}

// relational reads a database by statements that all of them know.
func relational(db *sql.DB) func(table string, from int) []string {
	return func(table string, from int) []string {
		rows, err := db.Query(fmt.Sprintf("SELECT concat_ws('|', id, n, coalesce(note, 'NULL')) FROM %s WHERE id >= %d", table, from))
		if err != nil {
			return nil
		}
		defer rows.Close()
		out := []string{}
		for rows.Next() {
			var text string
			if rows.Scan(&text) != nil {
				return nil
			}
			out = append(out, text)
		}
		if rows.Err() != nil {
			return nil
		}
		slices.Sort(out)
		return out
	}
}

// openSQLite opens a database file, which has to be there.
func openSQLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db := sql.OpenDB(sqliteFile("file:" + path + "?mode=rw&_pragma=busy_timeout(30000)"))
	t.Cleanup(func() { db.Close() })
	return db
}

func redisCopy(t *testing.T) (copied, *localprocess.Process) {
	t.Helper()
	server := localprocess.Start(t, localprocess.Redis())
	db := redis.NewClient(&redis.Options{Addr: server.Address, Protocol: 2})
	t.Cleanup(func() { db.Close() })
	rows := func(table string, from int) []string {
		keys, err := db.Keys(context.Background(), table+":*").Result()
		if err != nil {
			return nil
		}
		answers, err := db.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.HMGet(context.Background(), key, "id", "n", "note")
			}
			return nil
		})
		if err != nil && len(keys) > 0 {
			return nil
		}
		out := []string{}
		for _, a := range answers {
			v := a.(*redis.SliceCmd).Val()
			if len(v) == 3 && v[0] != nil {
				out = keepFrom(out, from, fmt.Sprint(v[0]), fmt.Sprint(v[1]), v[2])
			}
		}
		slices.Sort(out)
		return out
	}
	return copied{"cache", fanSink("cache", "redis", "dsn: redis://"+server.Address, `key: "{table}:{key}"`), rows}, server
}

// keepFrom appends a row whose id is not below from.
func keepFrom(out []string, from int, id, n string, note any) []string {
	var number int
	if _, err := fmt.Sscan(id, &number); err != nil || number < from {
		return out
	}
	if note == nil {
		note = "NULL"
	}
	return append(out, fmt.Sprint(id, "|", n, "|", note))
}

func clickhouseCopy(t *testing.T) copied {
	t.Helper()
	server := localprocess.Start(t, localprocess.ClickHouse())
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{server.Address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	rows := func(table string, from int) []string {
		list, err := conn.Query(context.Background(), fmt.Sprintf("SELECT concat(toString(id), '|', ifNull(toString(n), 'NULL'), '|', ifNull(note, 'NULL')) FROM fan.%s FINAL WHERE _deleted = 0 AND id >= %d", table, from))
		if err != nil {
			return nil
		}
		defer list.Close()
		texts := []string{}
		for list.Next() {
			var text string
			if list.Scan(&text) != nil {
				return nil
			}
			texts = append(texts, text)
		}
		if list.Err() != nil {
			return nil
		}
		slices.Sort(texts)
		return texts
	}
	return copied{"analytics", fanSink("analytics", "clickhouse", "dsn: clickhouse://"+server.Address, `table: "fan.{table}"`), rows}
}

func searchCopy(t *testing.T) copied {
	t.Helper()
	program, err := localprocess.Search("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + localprocess.Start(t, program).Address
	post := func(path, body string) []byte {
		resp, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			return nil
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil
		}
		return text
	}
	rows := func(table string, from int) []string {
		if post("/"+table+"/_refresh", "") == nil {
			return nil
		}
		var answer struct {
			Hits struct {
				Hits []struct {
					Source map[string]any `json:"_source"`
				}
			}
		}
		d := json.NewDecoder(bytes.NewReader(post("/"+table+"/_search", fmt.Sprintf(`{"size":10000,"query":{"range":{"id":{"gte":%d}}}}`, from))))
		d.UseNumber()
		if d.Decode(&answer) != nil {
			return nil
		}
		out := []string{}
		for _, hit := range answer.Hits.Hits {
			out = keepFrom(out, from, fmt.Sprint(hit.Source["id"]), fmt.Sprint(hit.Source["n"]), hit.Source["note"])
		}
		slices.Sort(out)
		return out
	}
	return copied{"search", fanSink("search", "elasticsearch", "url: "+url, `index: "{table}"`), rows}
}

// parquetCopy is files of Parquet, read by DuckDB: of the changes of a key the last one counts.
func parquetCopy(t *testing.T, dir string) copied {
	t.Helper()
	reader := duck.Start(t, "../..")
	rows := func(table string, from int) []string {
		var files []string
		found, err := filepath.Glob(filepath.Join(dir, "*."+table, "*", "*.parquet"))
		if err != nil {
			return nil
		}
		for _, path := range found {
			if !strings.HasPrefix(filepath.Base(path), ".") {
				files = append(files, "'"+path+"'")
			}
		}
		if len(files) == 0 {
			return nil
		}
		r := reader.Try(t, fmt.Sprintf(`SELECT id || '|' || n || '|' || coalesce(note, 'NULL') FROM (
			SELECT *, row_number() OVER (PARTITION BY id ORDER BY _offset DESC) AS place FROM read_parquet([%s], union_by_name = true, hive_partitioning = false))
			WHERE place = 1 AND NOT __deleted AND id >= %d`, strings.Join(files, ", "), from))
		if r.Error != "" {
			return nil // a file was merged into another one meanwhile
		}
		out := []string{}
		for _, row := range r.Rows {
			out = append(out, *row[0])
		}
		slices.Sort(out)
		return out
	}
	return copied{"lake", fanSink("lake", "file", "path: "+dir, "format: parquet"), rows}
}

// folded is what a reader of an append-only store knows: the newest change of each key.
type folded struct {
	mu       sync.Mutex
	rows     map[string]folding // by table and key
	places   map[string]int     // how often each topic, partition and offset came
	versions map[string]int     // how often each table, id and n came in an insert, update or snapshot
}

type folding struct {
	offset int64
	table  string
	id     string
	n      string
	note   any
	gone   bool
}

func newFolded() *folded {
	return &folded{rows: map[string]folding{}, places: map[string]int{}, versions: map[string]int{}}
}

// add takes a line of connectors.AppendLine.
func (f *folded) add(line []byte) error {
	var l struct {
		Topic     string
		Partition int
		Offset    int64
		Op        string
		Table     string
		Key       json.RawMessage
		After     map[string]any
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&l); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places[fmt.Sprint(l.Topic, "/", l.Partition, "/", l.Offset)]++
	key := l.Table + string(l.Key)
	next := folding{offset: l.Offset, table: l.Table, gone: l.After == nil}
	if !next.gone {
		next.id, next.n, next.note = fmt.Sprint(l.After["id"]), fmt.Sprint(l.After["n"]), l.After["note"]
		f.versions[fmt.Sprint(l.Table, " ", next.id, " ", next.n)]++
	}
	if old, ok := f.rows[key]; !ok || old.offset <= l.Offset {
		f.rows[key] = next
	}
	return nil
}

func (f *folded) read(table string, from int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, r := range f.rows {
		if r.table == table && !r.gone {
			out = keepFrom(out, from, r.id, r.n, r.note)
		}
	}
	slices.Sort(out)
	return out
}

// webCopy is a web server in the test's own process, which takes lines.
func webCopy(t *testing.T) copied {
	t.Helper()
	f := newFolded()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // the program was killed in the middle of a request
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for line := range bytes.Lines(body) {
			if err := f.add(line); err != nil {
				t.Errorf("the web server got a line that is none: %v", err)
			}
		}
	}))
	t.Cleanup(server.Close)
	return copied{"hook", fanSink("hook", "http", "url: "+server.URL, "format: ndjson"), f.read}
}

// kafkaCopy is a cluster in the test's own process, read as it is written.
func kafkaCopy(t *testing.T) (copied, *folded) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	f := newFolded()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeRegex(), kgo.ConsumeTopics(`^fan\..*`), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(500*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if err := f.add(r.Value); err != nil {
					t.Errorf("the cluster got a record that is none: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		client.Close()
	})
	return copied{"partners", fanSink("partners", "kafka", fmt.Sprintf("brokers: [%q]", cluster.ListenAddrs()[0]), `topic: "fan.{table}"`), f.read}, f
}
