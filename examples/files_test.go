package examples

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"modernc.org/sqlite"

	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/s3/localserver"
)

func TestParquet(t *testing.T) {
	t.Parallel()
	db := duck.Start(t, "..")
	e := beside(t, "parquet")
	for range 2 {
		e.once()
		for topic, want := range map[string]string{"orders": "5", "customers": "4"} {
			pattern := filepath.Join(e.dir, "data/lake/topic=shop.main."+topic+"/**/*.parquet")
			r := db.Query(t, "SELECT count(*), count(DISTINCT id), count(DISTINCT date) FROM read_parquet('"+pattern+"') WHERE NOT __deleted")
			if got := r.Rows[0]; *got[0] != want || *got[1] != want || *got[2] != "1" {
				t.Errorf("%s: %s rows with %s ids of %s days, want %s", topic, *got[0], *got[1], *got[2], want)
			}
		}
	}
}

func TestS3(t *testing.T) {
	t.Parallel()
	db := duck.Start(t, "..")
	server := httptest.NewServer(localserver.Handler())
	defer server.Close()
	client, err := minio.New(strings.TrimPrefix(server.URL, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(localserver.AccessKey, localserver.SecretKey, ""), Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.MakeBucket(t.Context(), "shop-lake", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	e := beside(t, "s3")
	for round := range 2 {
		e.once("S3_ENDPOINT="+server.URL, "S3_ACCESS_KEY="+localserver.AccessKey, "S3_SECRET_KEY="+localserver.SecretKey)
		dir := t.TempDir()
		n := 0
		for o := range client.ListObjects(t.Context(), "shop-lake", minio.ListObjectsOptions{Prefix: "topic=shop.main.orders/", Recursive: true}) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if !strings.HasSuffix(o.Key, ".parquet") {
				continue
			}
			body, err := client.GetObject(t.Context(), "shop-lake", o.Key, minio.GetObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)+".parquet"), b, 0o600); err != nil {
				t.Fatal(err)
			}
			n++
		}
		r := db.Query(t, "SELECT count(*), count(DISTINCT id) FROM read_parquet('"+dir+"/*.parquet')")
		if got := r.Rows[0]; *got[0] != "5" || *got[1] != "5" {
			t.Errorf("round %d: %s rows with %s ids in %d objects, want 5", round, *got[0], *got[1], n)
		}
	}
}

// sqliteFile opens a file of SQLite.
type sqliteFile string

func (f sqliteFile) Connect(context.Context) (driver.Conn, error) {
	return (&sqlite.Driver{}).Open(string(f))
}

func (f sqliteFile) Driver() driver.Driver { return &sqlite.Driver{} }

func TestFiles(t *testing.T) {
	t.Parallel()
	e := copyOf(t, "files", "../cmd/trunkline")
	rows := func(want string) {
		t.Helper()
		db := sql.OpenDB(sqliteFile(filepath.Join(e.dir, "data/shop.db")))
		defer db.Close()
		var got string
		err := db.QueryRowContext(t.Context(), `SELECT (SELECT group_concat(concat_ws(' ', id, item, euros, at, note), ', ') FROM (SELECT * FROM orders ORDER BY id))
			|| ' | ' || (SELECT group_concat(concat_ws(' ', sku, item, price), ', ') FROM (SELECT * FROM prices ORDER BY sku))`).Scan(&got)
		if err != nil || got != want {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
	}
	const before = "1 kettle 29.99 2026-01-29T08:12:00Z, 2 teapot 34.50 2026-01-29T10:40:00Z gift, 3 kettle 29.99 2026-01-30T07:05:00Z"
	const prices = " | K1 kettle 29.99, T1 teapot, blue 34.50"
	for range 2 {
		e.once()
		rows(before + prices)
	}
	orders := filepath.Join(e.dir, "in/orders/2026-01-30.jsonl")
	text, err := os.ReadFile(orders)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(orders, append(text, `{"id":4,"item":"teapot","euros":34.50,"at":"2026-01-30T10:00:00Z"}`+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	e.once()
	rows(before + ", 4 teapot 34.50 2026-01-30T10:00:00Z" + prices)
}

func TestExecSource(t *testing.T) {
	t.Parallel()
	e := copyOf(t, "exec-source", "../cmd/trunkline")
	for range 2 {
		e.once()
		got := e.lines("data/lines/web.requests/*/*.jsonl")
		if len(got) != 3 || !strings.Contains(got[2], `"after":{"at":"2026-01-30T08:00:07Z","method":"GET","path":"/orders/3","status":404,"ms":3}`) {
			t.Fatalf("%d lines for 3 requests: %s", len(got), strings.Join(got, "\n"))
		}
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	e := copyOf(t, "webhooks", "../cmd/trunkline")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(e.dir, "pipelines.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), "127.0.0.1:8090", address, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	body := `{"id":1,"item":"kettle","euros":29.99}`
	mac := hmac.New(sha256.New, []byte("another-secret"))
	mac.Write([]byte(body))
	post := func() (int, error) {
		q, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/orders", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		q.Header.Set("X-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		q.Header.Set("X-Event", "paid")
		q.Header.Set("Idempotency-Key", "1")
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0, err
		}
		return r.StatusCode, r.Body.Close()
	}
	for round := range 2 { // the second is killed
		cmd := exec.CommandContext(ctx, e.program, "run")
		cmd.Dir, cmd.Env = e.dir, append(os.Environ(), "HOOK_SECRET=another-secret")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		status := 0
		for ctx.Err() == nil && status == 0 {
			status, _ = post() // until it listens
		}
		if status != 200 {
			t.Errorf("round %d: answered %d", round, status)
		}
		for ctx.Err() == nil && len(e.lines("data/lines/hooks.orders/*/*.jsonl")) == 0 {
			time.Sleep(20 * time.Millisecond)
		}
		end := []os.Signal{os.Interrupt, os.Kill}[round]
		if err := cmd.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); round == 0 && err != nil {
			t.Errorf("end: %v: %s", err, out.String())
		}
	}
	got := e.lines("data/lines/hooks.orders/*/*.jsonl")
	if len(got) != 1 || !strings.Contains(got[0], `"key":{"id":1},"before":null,"after":{"event":"paid","id":1,"item":"kettle","euros":29.99}`) {
		t.Errorf("lines of one order that came twice: %s", strings.Join(got, "\n"))
	}
}
