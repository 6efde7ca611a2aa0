//go:build unix

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trunkline/trunkline/connectors/localprocess"
)

// launch starts a server in a folder of its own.
func (w *world) launch(ctx context.Context, name string, server localprocess.Server) (*localprocess.Process, error) {
	dir, err := w.newDir(name)
	if err != nil {
		return nil, err
	}
	return localprocess.Launch(ctx, dir, server)
}

func fillRedis(ctx context.Context, w *world, l *loaded) (*filled, error) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		return nil, err
	}
	server, err := w.launch(ctx, "redis", localprocess.Redis())
	if err != nil {
		return nil, err
	}
	commands := filepath.Join(l.dir, "orders.resp")
	if err := writeCommands(l.tsv, commands); err != nil {
		server.Kill()
		return nil, err
	}
	db := redis.NewClient(&redis.Options{Addr: server.Address, Protocol: 2})
	return &filled{
		settings: "    dsn: redis://" + server.Address + "\n",
		empty:    func(ctx context.Context) error { return db.FlushAll(ctx).Err() },
		bulk: func(ctx context.Context) (sample, error) {
			file, err := os.Open(commands)
			if err != nil {
				return sample{}, err
			}
			defer file.Close()
			cmd := exec.CommandContext(ctx, cli, "-p", strconv.Itoa(server.Ports[0]), "--pipe")
			cmd.Stdin = file
			return timed(cmd, w.Rows)
		},
		count: func(ctx context.Context) (int, error) {
			all, err := db.DBSize(ctx).Result()
			if err != nil {
				return 0, err
			}
			marks, err := db.Keys(ctx, "_trunkline:*").Result()
			return int(all) - len(marks), err
		},
		close: func() {
			_ = db.Close()
			server.Kill()
		},
	}, nil
}

// orderColumns are the columns of the table, in order.
var orderColumns = []string{"id", "customer_id", "status", "amount", "note", "created_at", "updated_at"}

// writeCommands writes an HSET for each row, in Redis' own protocol.
func writeCommands(tsv, path string) error {
	var out bytes.Buffer
	word := func(s string) { fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(s), s) }
	err := eachLine(tsv, func(line string) error {
		fields := strings.Split(line, "\t")
		fmt.Fprintf(&out, "*%d\r\n", 2+2*len(fields))
		word("HSET")
		word("public.orders:" + fields[0])
		for i, f := range fields {
			word(orderColumns[i])
			word(f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o600)
}

func fillClickHouse(ctx context.Context, w *world, l *loaded) (*filled, error) {
	server, err := w.launch(ctx, "clickhouse", localprocess.ClickHouse())
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/?query=", server.Ports[1])
	run := func(ctx context.Context, query string, body io.Reader) error {
		return post(ctx, url+neturl.QueryEscape(query), "text/plain", body)
	}
	return &filled{
		settings: "    dsn: clickhouse://" + server.Address + "/default\n    table: \"target.{table}\"\n",
		empty: func(ctx context.Context) error {
			for _, statement := range []string{"CREATE DATABASE IF NOT EXISTS target", "DROP TABLE IF EXISTS target.orders", `CREATE TABLE target.orders (id Int64, customer_id Nullable(Int32), status Nullable(String),
				amount Nullable(Decimal(12, 2)), note Nullable(String), created_at Nullable(String), updated_at Nullable(String), _version UInt64, _deleted UInt8) ENGINE = ReplacingMergeTree(_version) ORDER BY id`} {
				if err := run(ctx, statement, nil); err != nil {
					return err
				}
			}
			return nil
		},
		bulk: func(ctx context.Context) (sample, error) {
			file, err := os.Open(l.tsv)
			if err != nil {
				return sample{}, err
			}
			defer file.Close()
			start := time.Now()
			err = run(ctx, "INSERT INTO target.orders ("+strings.Join(orderColumns, ", ")+") FORMAT TabSeparated", file)
			return w.took(start), err
		},
		count: func(ctx context.Context) (int, error) {
			return askNumber(ctx, url+neturl.QueryEscape("SELECT count() FROM target.orders"))
		},
		close: server.Kill,
	}, nil
}

// askNumber reads a number from a web server.
func askNumber(ctx context.Context, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var answer struct{ Count *int }
	if json.Unmarshal(text, &answer) == nil && answer.Count != nil {
		return *answer.Count, nil
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func fillSearch(ctx context.Context, w *world, l *loaded) (*filled, error) {
	program, err := localprocess.Search("bin")
	if err != nil {
		return nil, err
	}
	server, err := w.launch(ctx, "search", program)
	if err != nil {
		return nil, err
	}
	url, index, round := "http://"+server.Address, "", 0
	f := &filled{
		settings: "    url: " + url + "\n    index: \"INDEX-{table}\"\n",
		empty: func(context.Context) error {
			round++
			index = "round" + strconv.Itoa(round)
			return nil
		},
		bulk: func(ctx context.Context) (sample, error) {
			n := 0
			list, err := bodies(l.json, func(dst, line []byte) []byte {
				n++
				dst = fmt.Appendf(dst, `{"index":{"_index":"%s-orders","_id":"%d"}}`+"\n", index, n)
				return append(dst, line...)
			})
			if err != nil {
				return sample{}, err
			}
			start := time.Now()
			for _, body := range list {
				if err := post(ctx, url+"/_bulk", "application/x-ndjson", bytes.NewReader(body)); err != nil {
					return sample{}, err
				}
			}
			return w.took(start), nil
		},
		count: func(ctx context.Context) (int, error) {
			if err := post(ctx, url+"/"+index+"-orders/_refresh", "application/json", nil); err != nil {
				return 0, err
			}
			return askNumber(ctx, url+"/"+index+"-orders/_count")
		},
		close: server.Kill,
	}
	f.change = func(settings string) string { return strings.ReplaceAll(settings, "INDEX", index) }
	return f, nil
}

// duck runs a statement in DuckDB and prints how long it took, and the first value of a query.
const duck = `import sys, time, duckdb
duckdb.execute("SET enable_progress_bar = false")
start = time.time()
result = duckdb.execute(sys.argv[1]).fetchone()
print(time.time() - start, result[0])
`

// fillParquet is files of Parquet, beside DuckDB, which writes one from the same rows.
func fillParquet(ctx context.Context, w *world, l *loaded) (*filled, error) {
	folder := os.Getenv("TRUNKLINE_DUCKDB")
	if folder == "" {
		folder = filepath.Join("bin", "duckdb")
	}
	if _, err := os.Stat(filepath.Join(folder, "duckdb")); err != nil {
		return nil, fmt.Errorf("find DuckDB's Python module: %w; run scripts/setup-stores", err)
	}
	ask := func(ctx context.Context, statement string) (took time.Duration, n int, err error) {
		cmd := exec.CommandContext(ctx, "python3", "-c", duck, statement)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+folder)
		out, err := cmd.Output()
		if err != nil {
			return 0, 0, fmt.Errorf("ask DuckDB: %w", err)
		}
		var seconds float64
		_, err = fmt.Sscan(string(out), &seconds, &n)
		return time.Duration(seconds * float64(time.Second)), n, err
	}
	dir := filepath.Join(l.dir, "lake")
	return &filled{
		settings: fmt.Sprintf("    path: %q\n    format: parquet\n", dir),
		empty: func(context.Context) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(dir, "peer", "0"), 0o755)
		},
		bulk: func(ctx context.Context) (sample, error) {
			took, _, err := ask(ctx, fmt.Sprintf(`COPY (SELECT * FROM read_csv('%s', delim = '\t', header = false, nullstr = '\N', columns = {'id': 'BIGINT', 'customer_id': 'INTEGER', 'status': 'VARCHAR',
				'amount': 'DECIMAL(12,2)', 'note': 'VARCHAR', 'created_at': 'TIMESTAMP', 'updated_at': 'TIMESTAMP'})) TO '%s' (FORMAT parquet, COMPRESSION zstd)`, l.tsv, filepath.Join(dir, "peer", "0", "orders.parquet")))
			return sample{rows: w.Rows, wall: took}, err
		},
		count: func(ctx context.Context) (int, error) {
			_, n, err := ask(ctx, "SELECT count(DISTINCT id) FROM read_parquet('"+dir+"/*/*/*.parquet')")
			return n, err
		},
		close: func() {},
	}, nil
}
