package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// A publication of the user's that brings changes under the names of partitions would lose those of a partitioned table.
func TestPartitionsThatArePublishedByThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TABLE ev (id int PRIMARY KEY) PARTITION BY RANGE (id)`, `CREATE TABLE ev_low PARTITION OF ev FOR VALUES FROM (0) TO (10)`,
		`CREATE TABLE plain (id int PRIMARY KEY)`, `CREATE PUBLICATION everything FOR ALL TABLES`)
	h.config.Publication = "everything"
	findings, err := check(t.Context(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	remedy := `ALTER PUBLICATION "everything" SET (publish_via_partition_root = true)`
	if !slices.ContainsFunc(findings, func(f connectors.Finding) bool {
		return f.Severity == connectors.Fatal && f.Subject == "table public.ev" && strings.Contains(f.Remedy, remedy)
	}) {
		t.Errorf("check does not name the remedy: %+v", findings)
	}
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO ev VALUES (1)`, `INSERT INTO plain VALUES (1)`)
	h.untilCount(1)
	if !slices.ContainsFunc(h.reports, func(r connectors.Report) bool {
		return r.Table == "public.ev" && r.Phase == connectors.PhaseFailed && strings.Contains(r.Reason, remedy)
	}) {
		t.Error("no report of the refused table")
	}
	h.exec(remedy)
	h.open()
	h.untilSame("public.ev")
	h.config.Tables = []connectors.TableSpec{{Name: "public.ev"}}
	h.exec(`ALTER PUBLICATION everything SET (publish_via_partition_root = false)`)
	h.mark = nil
	h.wantFatal("nothing but partitions", remedy)
}
