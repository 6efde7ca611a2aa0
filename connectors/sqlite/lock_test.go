package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// TestRunsOfOneSourceNeverOverlap: not by another name of the file either. Another source of it is another matter.
func TestRunsOfOneSourceNeverOverlap(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY)")
	spec, env := connectors.TableSpec{Name: "x"}, connectors.NewEnv("shop")
	first, err := f.opener(spec)(t.Context(), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(f.path, link); err != nil {
		t.Fatal(err)
	}
	second := f.source(spec)
	second.File = File{DSN: "file:" + link + "?cache=private"}
	if _, err := openSource(t.Context(), second, env, nil); err == nil || !strings.Contains(err.Error(), "another process extracts source shop") {
		t.Errorf("a second one of the same name: %v", err)
	}
	other, err := f.opener(spec)(t.Context(), connectors.NewEnv("other"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []connectors.Source{other, first} {
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	again, err := openSource(t.Context(), second, env, nil)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if err := again.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
