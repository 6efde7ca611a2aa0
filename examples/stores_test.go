package examples

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors/localprocess"
	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	server := localprocess.Start(t, localprocess.Redis())
	db := redis.NewClient(&redis.Options{Addr: server.Address})
	defer db.Close()
	e := beside(t, "redis")
	for range 2 {
		e.once("REDIS_DSN=redis://" + server.Address)
		order, err := db.HGetAll(t.Context(), "main.orders:1").Result()
		if err != nil || order["id"] != "1" {
			t.Fatalf("order %v, %v", order, err)
		}
		keys, err := db.Keys(t.Context(), "main.*").Result()
		if err != nil || len(keys) != 9 {
			t.Fatalf("keys %v, %v; want 9", keys, err)
		}
		if n, err := db.XLen(t.Context(), "events:shop.main.orders").Result(); err != nil || n != 5 {
			t.Fatalf("%d entries, %v; want 5", n, err)
		}
	}
}

func TestClickHouse(t *testing.T) {
	t.Parallel()
	server := localprocess.Start(t, localprocess.ClickHouse())
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{server.Address}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	e := beside(t, "clickhouse")
	for range 2 {
		e.once("CLICKHOUSE_DSN=clickhouse://" + server.Address + "/default")
		var orders, customers uint64
		query := "SELECT (SELECT count() FROM shop.orders FINAL WHERE _deleted = 0), (SELECT count() FROM shop.customers FINAL WHERE _deleted = 0)"
		if err := conn.QueryRow(t.Context(), query).Scan(&orders, &customers); err != nil || orders != 5 || customers != 4 {
			t.Fatalf("%d orders and %d customers, %v; want 5 and 4", orders, customers, err)
		}
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("http/listen.py")
	if err != nil {
		t.Fatal(err)
	}
	server := localprocess.Start(t, localprocess.Server{
		Program: "python3", Missing: "install Python 3",
		Args:  func(_ string, ports []int) ([]string, error) { return []string{script, strconv.Itoa(ports[0])}, nil },
		Ready: connects,
	})
	e := beside(t, "http")
	for range 2 {
		e.once("HOOK_URL=http://" + server.Address)
		printed, err := os.ReadFile(filepath.Join(server.Dir, "output"))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(printed), "trunkline.snapshot ") + strings.Count(string(printed), "trunkline.insert "); n != 9 {
			t.Fatalf("%d events, want 9: %s", n, printed)
		}
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	e := beside(t, "exec")
	for range 2 {
		e.once()
		text, err := os.ReadFile(filepath.Join(e.dir, "totals.json"))
		if err != nil {
			t.Fatal(err)
		}
		var state struct {
			Orders map[string]string
			Totals map[string]int
		}
		if err := json.Unmarshal(text, &state); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range state.Totals {
			sum += n
		}
		if len(state.Orders) != 5 || sum != 5 {
			t.Fatalf("%d orders, totals %v; want 5", len(state.Orders), state.Totals)
		}
	}
}

// connects reports that somebody listens.
func connects(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func TestElasticsearch(t *testing.T) {
	t.Parallel()
	search, err := localprocess.Search("../bin")
	if err != nil {
		t.Fatal(err)
	}
	server := localprocess.Start(t, search)
	e := beside(t, "elasticsearch")
	for range 2 {
		e.once("SEARCH_URL=http://" + server.Address)
		for index, want := range map[string]int{"shop-orders": 5, "shop-customers": 4} {
			if refreshed, err := http.Post("http://"+server.Address+"/"+index+"/_refresh", "", nil); err != nil {
				t.Fatal(err)
			} else {
				refreshed.Body.Close()
			}
			resp, err := http.Get("http://" + server.Address + "/" + index + "/_count")
			if err != nil {
				t.Fatal(err)
			}
			var answer struct{ Count int }
			err = json.NewDecoder(resp.Body).Decode(&answer)
			resp.Body.Close()
			if err != nil || answer.Count != want {
				t.Fatalf("%d documents in %s, %v; want %d", answer.Count, index, err, want)
			}
		}
	}
}

// TestKafka runs the example twice against a real broker, and reads what is committed.
func TestKafka(t *testing.T) {
	if os.Getenv("TRUNKLINE_SKIP_CLIENTS") != "" {
		t.Skip("Kafka's own programs are left out (TRUNKLINE_SKIP_CLIENTS)")
	}
	t.Parallel()
	cluster, err := localcluster.Start(t.Context(), t.TempDir(), localcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	e := beside(t, "kafka")
	for range 2 {
		e.once("KAFKA=" + cluster.Addresses[0])
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics("partners.orders", "partners.customers", "_trunkline_offsets"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	seen, marks := map[string]int{}, 0
	for len(seen) < 9 || marks == 0 {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Topic == "_trunkline_offsets" {
				marks++
				return
			}
			seen[r.Topic+string(r.Key)]++
		})
		if ctx.Err() != nil {
			t.Fatalf("%d rows and %d positions, want 9 rows", len(seen), marks)
		}
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", key, n)
		}
	}
	// The way back: what was written into the cluster becomes tables.
	back := copyOf(t, "kafka-source", "../cmd/trunkline")
	for round := range 2 {
		back.once("KAFKA=" + cluster.Addresses[0])
		db := sql.OpenDB(sqliteFile(filepath.Join(back.dir, "data/copy.db")))
		var got string
		err := db.QueryRowContext(ctx, `SELECT (SELECT count(*) || ' ' || count(DISTINCT id) FROM orders) || ' ' || (SELECT count(*) || ' ' || count(DISTINCT id) FROM customers)`).Scan(&got)
		if err := errors.Join(err, db.Close()); err != nil || got != "5 5 4 4" {
			t.Errorf("round %d: %s orders and customers (%v), want 5 5 4 4", round, got, err)
		}
	}
}
