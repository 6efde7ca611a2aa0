package exec_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/exec"
)

// child is a program in Python that appends what it gets to a file, batch by batch, and refuses rows that say "bad".
const child = `
import json, sys
batch = []
for line in sys.stdin:
    message = json.loads(line)
    if "commit" not in message:
        batch.append(line)
        continue
    assert message["commit"]["changes"] == len(batch)
    bad = [json.loads(l)["offset"] for l in batch if '"bad"' in l]
    answer = {"position": message["commit"]["position"]}
    if bad:
        answer["refused"] = [{"offset": o, "reason": "it is bad"} for o in bad]
    else:
        with open(sys.argv[1], "a") as out:
            out.writelines(batch)
    batch = []
    print(json.dumps(answer), flush=True)
`

func config(t *testing.T, program string) exec.SinkConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "child.py")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.SinkConfig{Program: exec.Program{Command: []string{"python3", path, filepath.Join(t.TempDir(), "out")}}, Timeout: time.Minute}
}

func opener(t *testing.T, settings exec.SinkConfig) connectors.OpenSink {
	t.Helper()
	open, err := exec.Connector().Sink(func(into any) error {
		c := into.(*exec.SinkConfig)
		*c = settings
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func sink(t *testing.T, settings exec.SinkConfig) connectors.Sink {
	t.Helper()
	s, err := opener(t, settings)(t.Context(), connectors.NewEnv("child"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSinkConformance runs alone, because it counts goroutines.
func TestSinkConformance(t *testing.T) {
	conformance.RunSink(t, conformance.SinkCase{Wide: 100, New: func(t *testing.T) conformance.SinkSystem {
		settings := config(t, child)
		return conformance.SinkSystem{
			Open: opener(t, settings), Refuse: func(*testing.T, *connectors.Table) {},
			Log: func(t *testing.T, table *connectors.Table) (log []conformance.Entry) {
				text, err := os.ReadFile(settings.Command[2])
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				for line := range bytes.Lines(text) {
					if e, ok := conformance.ParseLine(t, line, table); ok {
						log = append(log, e)
					}
				}
				return log
			},
		}
	}})
}

var item = &connectors.Table{Schema: "shop", Name: "item", Key: []int{0}, Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}}

func batch(ids ...int64) connectors.Batch {
	b := connectors.Batch{Stream: "shop.item/0"}
	for i, id := range ids {
		b.Changes = append(b.Changes, connectors.Change{Op: connectors.Insert, Table: item, Offset: int64(i), After: []connectors.Value{connectors.IntValue(id)}})
	}
	b.Position = strconv.AppendInt(nil, int64(len(ids)), 10)
	return b
}

// TestChildrenThatDoNotAnswerAsTheyShould: none of them hangs the sink, takes the batch or is left running.
func TestChildrenThatDoNotAnswerAsTheyShould(t *testing.T) {
	t.Parallel()
	many := make([]int64, 20000) // more than a pipe holds
	for name, c := range map[string]struct{ program, want string }{
		"ends at once":                     {"", "output"},
		"ends in the middle":               {"import sys\nsys.stdin.readline()\nsys.exit(3)", ""},
		"says no JSON":                     {"import sys\nfor line in sys.stdin:\n    if 'commit' in line: print('hello', flush=True)", "something else"},
		"says an error":                    {"import sys\nfor line in sys.stdin:\n    if 'commit' in line: print('{\"error\":\"disk full\"}', flush=True)", "disk full"},
		"says a strange refusal":           {"import sys\nfor line in sys.stdin:\n    if 'commit' in line: print('{\"position\":\"20000\",\"refused\":[{\"offset\":-7}]}', flush=True)", "not in the batch"},
		"prints what looks like an answer": {"import sys\nprint('{}', flush=True)\nfor line in sys.stdin: pass", "another position"},
		"says nothing":                     {"import sys\nfor line in sys.stdin: pass", "deadline"},
		"reads nothing":                    {"import time\ntime.sleep(600)", "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := config(t, c.program)
			if c.want == "deadline" {
				settings.Timeout = 300 * time.Millisecond
			}
			s := sink(t, settings)
			err := s.Write(t.Context(), batch(many...))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("write: %v, want %q", err, c.want)
			}
			if err := s.Close(context.Background()); err != nil && c.want != "disk full" && c.want != "not in the batch" {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	t.Parallel()
	settings := exec.SinkConfig{Program: exec.Program{Command: []string{"no-such-program-here"}}, Timeout: time.Minute}
	if _, err := opener(t, settings)(t.Context(), connectors.NewEnv("child")); !errors.Is(err, connectors.ErrFatal) {
		t.Errorf("open: %v, want ErrFatal", err)
	}
	check, err := exec.Connector().CheckSink(func(into any) error { *into.(*exec.SinkConfig) = settings; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := check(t.Context(), connectors.NewEnv("child")); err != nil || len(findings) != 1 {
		t.Errorf("check: %v, %v", findings, err)
	}
}

func TestEnvironmentAndFolder(t *testing.T) {
	t.Parallel()
	settings := config(t, "import os, sys\nfor line in sys.stdin:\n    if 'commit' in line:\n        open(os.environ['TARGET'], 'w').write(line)\n        print('{\"position\":\"2\"}', flush=True)")
	settings.Dir, settings.Environment = t.TempDir(), map[string]string{"TARGET": "here"}
	s := sink(t, settings)
	if err := errors.Join(s.Write(t.Context(), batch(1, 2)), s.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(settings.Dir, "here"))
	if want := `{"commit":{"stream":"shop.item/0","changes":2,"position":"2"}}` + "\n"; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []exec.SinkConfig{{Timeout: 1}, {Program: exec.Program{Command: []string{""}}, Timeout: 1}, {Program: exec.Program{Command: []string{"x"}}}} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
