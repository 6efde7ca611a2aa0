package endtoend

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestFilesProgramsCallsAndTopicsKilled kills the daemon with -9 again and again while rows come out of a file that grows, from a program, by
// webhook and from a Kafka topic. Each row stands in the archive once.
func TestFilesProgramsCallsAndTopicsKilled(t *testing.T) {
	t.Parallel()
	const fileRows, programRows, calls, records = 6000, 20000, 200, 4000
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	hooks := freeAddress(t)
	const program = `n=$${TRUNKLINE_POSITION:-0}; while [ $n -lt 20000 ]; do n=$((n+1)); echo "{\"table\":\"rows\",\"key\":{\"id\":$n},\"after\":{\"id\":$n},\"position\":\"$n\"}"; done; cat >/dev/null`
	l := newLine(t, fmt.Sprintf(`  drop:
    type: file
    path: DIR/in
    key: [id]
    table: rows
    poll: 5ms
  program:
    type: exec
    command: [sh, -c, '%s']
  hooks:
    type: http
    listen: %s
    paths: [{path: /rows, key: [id]}]
  topic:
    type: kafka
    brokers: [%q]
    topics: [orders]
    content: rows
    table: rows
`, program, hooks, cluster.ListenAddrs()[0]), strings.Replace(fileSink, "format: jsonl", "format: jsonl\n    roll: 0", 1))
	dir := filepath.Join(l.dir, "in")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	ended := make(chan error, 3)
	go func() { ended <- growFiles(ctx, dir, fileRows) }()
	go func() { ended <- call(ctx, "http://"+hooks+"/rows", calls) }()
	go func() { ended <- produce(ctx, cluster.ListenAddrs(), "orders", records) }()
	archive := filepath.Join(l.dir, "archive")
	for range 4 {
		before := len(filesBelow(archive))
		l.start()
		eventually(t, "rows arrive", func() bool { return len(filesBelow(archive)) > before+3 })
		l.kill()
	}
	l.start()
	for range 3 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{"drop.rows": fileRows, "program.rows": programRows, "hooks.rows": calls, "topic.rows": records}
	eventually(t, "every row is in the archive", func() bool {
		return len(readArchive(t, archive).inserts) >= fileRows+programRows+calls+records
	})
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	a := readArchive(t, archive)
	for topic, n := range want {
		for id := 1; id <= n; id++ {
			if got := a.inserts[fmt.Sprintf(`%s {"id":%d}`, topic, id)]; got != 1 {
				t.Fatalf("row %d of %s stands %d times in the archive", id, topic, got)
			}
		}
	}
	if n := len(a.inserts); n != fileRows+programRows+calls+records {
		t.Errorf("%d rows in the archive", n)
	}
}

// filesBelow returns the finished files of a folder.
func filesBelow(dir string) (list []string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".jsonl") {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// growFiles writes rows into three files one after the other, in pieces that end anywhere.
func growFiles(ctx context.Context, dir string, rows int) error {
	id := 0
	for file := range 3 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.jsonl", file)))
		if err != nil {
			return err
		}
		defer f.Close()
		var text []byte
		for ; id < rows*(file+1)/3; id++ {
			text = fmt.Appendf(text, "{\"id\":%d}\n", id+1)
			if id%50 != 0 {
				continue
			}
			half := len(text) - 3
			if _, err := f.Write(text[:half]); err != nil {
				return err
			}
			text = append(text[:0], text[half:]...)
			if err := rest(ctx); err != nil {
				return err
			}
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// rest lets the daemon come in between.
func rest(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call posts rows, each until it is answered with 200.
func call(ctx context.Context, url string, rows int) error {
	for id := 1; id <= rows; {
		q, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(fmt.Sprintf(`{"id":%d}`, id)))
		if err != nil {
			return err
		}
		q.Header.Set("Idempotency-Key", fmt.Sprint(id))
		r, err := http.DefaultClient.Do(q)
		if err == nil {
			if r.Body.Close(); r.StatusCode == http.StatusOK {
				id++
				continue
			}
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// produce writes rows into a topic.
func produce(ctx context.Context, brokers []string, topic string, rows int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for id := 1; id <= rows; {
		var batch []*kgo.Record
		for range min(50, rows-id+1) {
			batch = append(batch, &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, id), Value: []byte(`{"v":"x"}`)})
			id++
		}
		if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return err
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
	return nil
}
