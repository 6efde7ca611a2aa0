package bench

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStoresAreFilledInTheirOwnWay runs the reference side of every sink on a small table, but for the served log, which
// needs the program.
func TestStoresAreFilledInTheirOwnWay(t *testing.T) {
	for name, path := range map[string]string{"TRUNKLINE_OSMEM": "osmem/osmem_server/bin/osmem-server", "TRUNKLINE_DUCKDB": "duckdb"} {
		if os.Getenv(name) == "" {
			full, err := filepath.Abs(filepath.Join("../../../bin", path))
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv(name, full)
		}
	}
	w, err := open(t.Context(), Options{Rows: transaction, Rounds: 1, Out: t.Output(), Self: "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.fill(t.Context(), "rows", transaction); err != nil {
		t.Fatal(err)
	}
	l, err := w.exported(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets() {
		if target.name == "kafka" {
			continue
		}
		f, err := target.open(t.Context(), w, l)
		if err != nil {
			t.Errorf("%s: %v", target.name, err)
			continue
		}
		for range 2 {
			if err := f.empty(t.Context()); err != nil {
				t.Errorf("%s: empty: %v", target.name, err)
			}
			s, err := f.bulk(t.Context())
			if err != nil || s.wall <= 0 {
				t.Errorf("%s: bulk: %v in %v", target.name, err, s.wall)
			}
			if n, err := f.count(t.Context()); n != w.Rows || err != nil {
				t.Errorf("%s: %d rows, %v", target.name, n, err)
			}
		}
		f.close()
	}
}

func TestRatesAreReadable(t *testing.T) {
	for rate, want := range map[float64]string{0.4: "0", 391.6: "392", 1234: "1,234", 9999: "9,999", 12_345: "12,000", 1_947_777: "1,948,000"} {
		if got := thousands(rate); got != want {
			t.Errorf("%v is %s, want %s", rate, got, want)
		}
	}
}
