package clickhouse_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/clickhouse"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/localprocess"
)

// server is one of the two kinds of ClickHouse that the tests run on: an old one that is real and speaks the native
// protocol, and the engine of a new one behind its HTTP interface.
type server struct {
	*localprocess.Process
	name   string
	modern bool
	dsn    string // with %s for the database
	last   *atomic.Int64
}

// startOld runs clickhouse-server of Debian, 18.16.
func startOld(t *testing.T) *server {
	t.Helper()
	p := localprocess.Start(t, localprocess.ClickHouse())
	return &server{p, "old, native", false, "clickhouse://" + p.Address + "/%s", new(atomic.Int64)}
}

// startNew runs the engine of ClickHouse 26.5 that scripts/setup-stores installs.
func startNew(t *testing.T) *server {
	t.Helper()
	folder, err := filepath.Abs("../../bin/chdb")
	if dir := os.Getenv("TRUNKLINE_CHDB"); dir != "" {
		folder = dir
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "chdb"))
	}
	if err != nil {
		t.Fatalf("find chDB: %v; run scripts/setup-stores", err)
	}
	script, err := filepath.Abs("testdata/chdb_server.py")
	if err != nil {
		t.Fatal(err)
	}
	p := localprocess.Start(t, localprocess.Server{
		Program: "python3", Missing: "install Python 3",
		Args: func(dir string, ports []int) ([]string, error) {
			return []string{script, folder, strconv.Itoa(ports[0]), dir}, nil
		},
		Ready: func(ctx context.Context, address string) error {
			r, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+"/?query=SELECT+1", nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				err = resp.Body.Close()
			}
			http.DefaultClient.CloseIdleConnections()
			return err
		},
	})
	return &server{p, "new, HTTP", true, "http://" + p.Address + "/%s", new(atomic.Int64)}
}

// store is an empty database.
type store struct {
	*server
	t      *testing.T
	schema string
	config clickhouse.SinkConfig
}

func (s *server) store(t *testing.T) *store {
	t.Helper()
	schema := fmt.Sprintf("t%d", s.last.Add(1))
	return &store{s, t, schema, clickhouse.SinkConfig{
		DSN: fmt.Sprintf(s.dsn, "default"), Table: schema + "_{schema}.{table}", Deletes: "apply", Schema: connectors.FollowAll(connectors.Evolve), Unrepresentable: connectors.UnrepresentableDeadLetter}}
}

func (s *store) open() connectors.OpenSink {
	s.t.Helper()
	open, err := clickhouse.Connector().Sink(func(into any) error {
		c := into.(*clickhouse.SinkConfig)
		*c = s.config
		return c.Validate()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return open
}

// sink opens one that ends with the test.
func (s *store) sink() connectors.Migrator {
	s.t.Helper()
	opened, err := s.open()(s.t.Context(), connectors.NewEnv("analytics"))
	s.must(err)
	s.t.Cleanup(func() { opened.Close(context.Background()) })
	return opened.(connectors.Migrator)
}

func (s *store) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// connect opens a connection of the test's own. Goroutines are counted, so it is closed after each use.
func (s *store) connect() driver.Conn {
	s.t.Helper()
	o, err := ch.ParseDSN(fmt.Sprintf(s.dsn, "default"))
	s.must(err)
	conn, err := ch.Open(o)
	s.must(err)
	return conn
}

// exec runs a statement; SCHEMA stands for the database of the tables.
func (s *store) exec(statement string) {
	s.t.Helper()
	conn := s.connect()
	defer conn.Close()
	s.must(conn.Exec(s.t.Context(), strings.ReplaceAll(statement, "SCHEMA", s.schema+"_shop")))
}

// text returns the one text that a SELECT gives.
func (s *store) text(query string) string {
	s.t.Helper()
	conn := s.connect()
	defer conn.Close()
	var out string
	s.must(conn.QueryRow(s.t.Context(), strings.ReplaceAll(query, "SCHEMA", s.schema+"_shop")).Scan(&out))
	return out
}

func quote(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}

func (s *store) table(t *connectors.Table) string {
	return quote(s.schema+"_"+t.Schema) + "." + quote(t.Name)
}

// rows reads the visible rows of a table, each value in the server's own text.
func (s *store) rows(t *testing.T, table *connectors.Table) []conformance.Row {
	t.Helper()
	conn := s.connect()
	defer conn.Close()
	var n uint64
	s.must(conn.QueryRow(t.Context(), "SELECT count() FROM system.tables WHERE database = '"+s.schema+"_"+table.Schema+"'").Scan(&n))
	if n == 0 {
		return nil
	}
	var columns []string
	for _, c := range table.Columns {
		if c.Kind == connectors.Float {
			columns = append(columns, quote(c.Name)) // their text is wrong in 26.5
			continue
		}
		columns = append(columns, "CAST(toString("+quote(c.Name)+") AS Nullable(String))")
	}
	rows, err := conn.Query(t.Context(), "SELECT "+strings.Join(columns, ", ")+" FROM "+s.table(table)+" FINAL WHERE _deleted = 0")
	s.must(err)
	defer rows.Close()
	var out []conformance.Row
	for rows.Next() {
		texts, floats := make([]*string, len(columns)), make([]*float64, len(columns))
		into := make([]any, len(columns))
		for i := range into {
			if into[i] = &texts[i]; table.Columns[i].Kind == connectors.Float {
				into[i] = &floats[i]
			}
		}
		s.must(rows.Scan(into...))
		row := conformance.Row{}
		for i, c := range table.Columns {
			switch {
			case texts[i] != nil:
				row[c.Name] = *texts[i]
			case floats[i] != nil:
				row[c.Name] = strings.Replace(strconv.FormatFloat(*floats[i], 'g', -1, 64), "Inf", "Infinity", 1)
			}
		}
		out = append(out, row)
	}
	s.must(rows.Err())
	return out
}
