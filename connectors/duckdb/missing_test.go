//go:build !duckdb

package duckdb

import (
	"os/exec"
	"strings"
	"testing"
)

func TestWithoutDuckDBTheTagIsNamed(t *testing.T) {
	t.Parallel()
	decode := func(into any) error {
		c := into.(*SinkConfig)
		c.Path = "lake.db"
		return c.Validate()
	}
	if _, err := Connector().Sink(decode); err == nil || !strings.Contains(err.Error(), "this binary was built without DuckDB: build with -tags duckdb") {
		t.Errorf("sink: %v", err)
	}
	wrong := func(into any) error { return into.(*SinkConfig).Validate() }
	if _, err := Connector().Sink(wrong); err == nil || !strings.Contains(err.Error(), "path is missing") {
		t.Errorf("sink without a path: %v", err)
	}
}

// TestTheProgramHasNoDuckDB: the default program is pure Go.
func TestTheProgramHasNoDuckDB(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "../../cmd/trunkline").Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := false
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		ours = ours || name == "github.com/trunkline/trunkline/connectors/duckdb"
		if strings.HasPrefix(name, "github.com/duckdb/") {
			t.Errorf("the program depends on %s", name)
		}
	}
	if !ours {
		t.Error("the program has no connector duckdb")
	}
}
