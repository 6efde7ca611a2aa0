package exec_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/exec"
)

// childEnv makes the test binary a program that reads a file of rows.
const childEnv = "TRUNKLINE_TEST_EXEC_SOURCE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := follow(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// follow writes the rows of a file, each with the number of its line as position, and ends with its input.
func follow(path string) error {
	in := bufio.NewReader(os.Stdin)
	first, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var start struct {
		Start struct {
			Position *string `json:"position"`
			Once     bool    `json:"once"`
		} `json:"start"`
	}
	if err := json.Unmarshal(first, &start); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprint(os.Stderr, "told ", line)
		}
	}()
	next, op := 0, "r"
	if at := start.Start.Position; at != nil {
		if next, err = strconv.Atoi(*at); err != nil {
			return err
		}
		op = "c"
	}
	for {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for ; next < len(lines) && lines[next] != ""; next++ {
			fmt.Printf(`{"op":"%s","schema":"shop","table":"item","key":{"id":0},"after":%s,"position":"%d"}`+"\n", op, lines[next], next+1)
		}
		op = "c"
		if start.Start.Once {
			return nil
		}
		select {
		case <-ended:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

func openSource(t *testing.T, c exec.SourceConfig) connectors.OpenSource {
	t.Helper()
	open, err := exec.Connector().Source(func(into any) error {
		settings := into.(*exec.SourceConfig)
		restart := settings.Restart
		if *settings = c; c.Restart == 0 {
			settings.Restart = restart
		}
		return settings.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// shell is a program in the language of the shell.
func shell(script string) exec.SourceConfig {
	return exec.SourceConfig{Program: exec.Program{Command: []string{"sh", "-c", script}}, Table: "shop.item", Restart: time.Millisecond}
}

func TestSourceConformance(t *testing.T) {
	conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
		path := filepath.Join(t.TempDir(), "rows")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.SourceConfig{Program: exec.Program{Command: []string{os.Args[0]}, Environment: map[string]string{childEnv: path}}}
		return conformance.SourceSystem{
			Open: openSource(t, c), Table: "shop.item",
			Insert: func(t *testing.T, ids ...int) {
				f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					if _, err := fmt.Fprintf(f, `{"id":%d,"v":"v%[1]d"}`+"\n", id); err != nil {
						t.Fatal(err)
					}
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			},
		}
	}})
}

// log is a logger whose lines a test waits for.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func (l *log) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !l.has(text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log has no %s", text)
		}
	}
}

func open(t *testing.T, c exec.SourceConfig, env connectors.Env, at connectors.Position) connectors.Source {
	t.Helper()
	s, err := openSource(t, c)(t.Context(), env, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func read(t *testing.T, s connectors.Source) connectors.Batch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b.Position = bytes.Clone(b.Position)
	return b
}

func TestTheProgramIsToldWhatIsDurable(t *testing.T) {
	t.Parallel()
	const script = `read -r first; echo "first $first and $TRUNKLINE_POSITION" >&2; echo '{"after":{"id":1},"position":"a \"b\""}'; while read -r line; do echo "told $line" >&2; done`
	var l log
	env := connectors.NewEnv("in")
	env.Logger = slog.New(slog.NewTextHandler(&l, nil))
	s := open(t, shell(script), env, nil)
	b := read(t, s)
	l.await(t, `first {\"start\":{\"position\":null,\"once\":false}} and "`)
	if err := s.Ack(t.Context(), b.Position); err != nil {
		t.Fatal(err)
	}
	l.await(t, `told {\"ack\":\"a \\\"b\\\"\"}`)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	open(t, shell(script), env, b.Position)
	l.await(t, `first {\"start\":{\"position\":\"a \\\"b\\\"\",\"once\":false}} and a \"b\"`)
}

func TestBatchesEndAtPositions(t *testing.T) {
	t.Parallel()
	const script = `for i in 1 2 3 4 5; do echo "{\"after\":{\"id\":$i}}"; done; echo '{"position":"x"}'; echo '{"position":"y"}'; echo '{"after":{"id":6}}'; exec sleep 600`
	env := connectors.NewEnv("in")
	env.Limits.BatchRows = 2
	s := open(t, shell(script), env, nil)
	var got []string
	for n := 0; n < 5; {
		b := read(t, s)
		n += len(b.Changes)
		got = append(got, fmt.Sprint(len(b.Changes), b.Position != nil))
	}
	if text := strings.Join(got, " "); text != "2 false 2 false 1 true" {
		t.Errorf("batches %s", text)
	}
}

func TestProgramsThatEnd(t *testing.T) {
	t.Parallel()
	t.Run("well: it is started again behind what it wrote", func(t *testing.T) {
		t.Parallel()
		s := open(t, shell(`n=$((${TRUNKLINE_POSITION:-0}+1)); echo "{\"after\":{\"id\":$n},\"position\":\"$n\"}"`), connectors.NewEnv("in"), nil)
		for n := range 3 {
			if b := read(t, s); len(b.Changes) != 1 || b.Changes[0].After[0].Int() != int64(n+1) || b.Changes[0].Table.FullName() != "shop.item" {
				t.Fatalf("start %d: %v", n, b.Changes)
			}
		}
	})
	for name, c := range map[string]struct{ script, problem string }{
		"with an error":              {`echo '{"after":{"id":1},"position":"1"}'; exit 3`, "exit status 3"},
		"in a transaction":           {`echo '{"after":{"id":1}}'`, "its last 1 changes have no position"},
		"after something else":       {`echo 'Hello, secret'; exec sleep 600`, "read line 1 of sh: not valid JSON"},
		"after a position of no use": {`echo '{"position":7}'; exec sleep 600`, "position is no text"},
		"after a line too long":      {`head -c 100000 /dev/zero | tr '\0' x; exec sleep 600`, "max_record_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := connectors.NewEnv("in")
			env.Limits.RowBytes = 10_000
			s := open(t, shell(c.script), env, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for {
				if _, err := s.Read(ctx); err != nil {
					if !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "secret") {
						t.Errorf("%v, want %s", err, c.problem)
					}
					return
				}
			}
		})
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		env := connectors.NewEnv("in")
		env.Once = true
		s := open(t, shell(`[ $TRUNKLINE_ONCE = true ] && echo '{"after":{"id":1},"position":"1"}'`), env, nil)
		read(t, s)
		if _, err := s.Read(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want the end", err)
		}
	})
	t.Run("not at all", func(t *testing.T) {
		t.Parallel()
		s := open(t, shell(`trap '' TERM; echo '{"position":"1"}'; exec sleep 600`), connectors.NewEnv("in"), nil)
		read(t, s)
		// The cleanup closes it, which takes as long as a program has to end.
	})
	t.Run("there is none", func(t *testing.T) {
		t.Parallel()
		c := exec.SourceConfig{Program: exec.Program{Command: []string{"no-such-program-here"}}}
		if _, err := openSource(t, c)(t.Context(), connectors.NewEnv("in"), nil); !errors.Is(err, connectors.ErrFatal) {
			t.Errorf("%v, want ErrFatal", err)
		}
	})
}
