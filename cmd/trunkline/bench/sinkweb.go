package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// post sends a body and throws the answer away.
func post(ctx context.Context, url, kind string, body io.Reader) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("it answered %d: %.200s", resp.StatusCode, text)
	}
	return errors.Join(err, resp.Body.Close())
}

// bodies cuts a file of lines into bodies of a batch each, every line changed by form.
func bodies(path string, form func(dst, line []byte) []byte) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list [][]byte
	var body []byte
	n := 0
	for line := range bytes.Lines(text) {
		body = form(body, line)
		if n++; n%batchRows == 0 {
			list, body = append(list, body), nil
		}
	}
	if len(body) > 0 {
		list = append(list, body)
	}
	return list, nil
}

func asItIs(dst, line []byte) []byte { return append(dst, line...) }

// fillWeb is a web server in this process that counts lines.
func fillWeb(_ context.Context, w *world, l *loaded) (*filled, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var lines atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			answer.WriteHeader(http.StatusBadRequest)
			return
		}
		lines.Add(int64(bytes.Count(body, []byte("\n"))))
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	list, err := bodies(l.json, asItIs)
	if err != nil {
		return nil, errors.Join(err, server.Close(), <-ended)
	}
	return &filled{
		settings: fmt.Sprintf("    url: %s\n    format: ndjson\n", url),
		empty: func(context.Context) error {
			lines.Store(0)
			return nil
		},
		bulk: func(ctx context.Context) (sample, error) {
			start := time.Now()
			for _, body := range list {
				if err := post(ctx, url, "application/x-ndjson", bytes.NewReader(body)); err != nil {
					return sample{}, err
				}
			}
			return w.took(start), nil
		},
		count: func(context.Context) (int, error) { return int(lines.Load()), nil },
		close: func() {
			_ = server.Close()
			<-ended
		},
	}, nil
}

// child counts lines and answers each commit. What it has counted is in the file at its end.
const child = `import json, sys
n = 0
for line in sys.stdin.buffer:
    if line.startswith(b'{"commit"'):
        print(json.dumps({"position": json.loads(line)["commit"]["position"]}), flush=True)
    else:
        n += 1
open(sys.argv[1], "w").write(str(n))
`

// fillChild is a child process in Python.
func fillChild(_ context.Context, w *world, l *loaded) (*filled, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, err
	}
	counted, script := filepath.Join(l.dir, "counted"), filepath.Join(l.dir, "child.py")
	if err := os.WriteFile(script, []byte(child), 0o600); err != nil {
		return nil, err
	}
	return &filled{
		settings: fmt.Sprintf("    command: [%q, %q, %q]\n", python, script, counted),
		empty:    func(context.Context) error { return os.RemoveAll(counted) },
		bulk: func(ctx context.Context) (sample, error) {
			rows, err := os.Open(l.json)
			if err != nil {
				return sample{}, err
			}
			defer rows.Close()
			cmd := exec.CommandContext(ctx, python, script, counted)
			cmd.Stdin = rows
			return timed(cmd, w.Rows)
		},
		count: func(context.Context) (int, error) {
			text, err := os.ReadFile(counted)
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(string(text))
		},
		close: func() {},
	}, nil
}

// serveTime is how long a log may take to be served.
const serveTime = time.Minute

// fillKafka is a log that this program serves.
func fillKafka(ctx context.Context, w *world, l *loaded) (*filled, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	dir := filepath.Join(l.dir, "served")
	cmd := exec.Command(w.Self, "serve", "--dir", dir, "--listen", address, "--log", "plain")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation(), kgo.DisableClientMetrics())
	for wait := time.Now(); err == nil; time.Sleep(20 * time.Millisecond) {
		if answered := client.Ping(ctx); answered == nil {
			break
		} else if time.Since(wait) > serveTime {
			err = fmt.Errorf("wait for the log that is served: %w", answered)
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	round, topic := 0, ""
	fresh := func(context.Context) error {
		round++
		topic = "orders-" + strconv.Itoa(round)
		return nil
	}
	f := &filled{
		empty: fresh,
		bulk: func(ctx context.Context) (sample, error) {
			start := time.Now()
			var failed kgo.FirstErrPromise
			err := eachLine(l.json, func(line string) error {
				client.Produce(ctx, &kgo.Record{Topic: topic, Key: []byte(line[:min(len(line), 12)]), Value: []byte(line)}, failed.Promise())
				return nil
			})
			if err == nil {
				err = failed.Err()
			}
			return w.took(start), err
		},
		count: func(ctx context.Context) (int, error) { return w.recordsIn(ctx, dir, topic) },
		close: func() {
			client.Close()
			end()
		},
	}
	f.settings = fmt.Sprintf("    brokers: [%q]\n    topic: TOPIC\n", address)
	f.change = func(settings string) string { return strings.ReplaceAll(settings, "TOPIC", topic) }
	return f, nil
}
