//go:build duckdb

package examples

import (
	"path/filepath"
	"testing"

	"github.com/trunkline/trunkline/connectors/conformance/duck"
)

// TestDuckDB runs the example twice, and reads the file with DuckDB's Python module.
func TestDuckDB(t *testing.T) {
	t.Parallel()
	db := duck.Start(t, "..")
	e := beside(t, "duckdb", "-tags", "duckdb")
	for range 2 {
		e.once()
		db.Query(t, "ATTACH '"+filepath.Join(e.dir, "data/warehouse.db")+"' AS warehouse (READ_ONLY)")
		r := db.Query(t, "SELECT (SELECT count(*) FROM warehouse.shop.orders), (SELECT count(DISTINCT id) FROM warehouse.shop.customers), (SELECT max(position) FROM warehouse.main._trunkline_offsets) IS NOT NULL")
		if got := r.Rows[0]; *got[0] != "5" || *got[1] != "4" || *got[2] != "true" {
			t.Errorf("%s orders and %s customers, a position: %s; want 5 and 4", *got[0], *got[1], *got[2])
		}
		db.Query(t, "DETACH warehouse")
	}
}
