//go:build duckdb

package duckdb

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

func TestMain(m *testing.M) {
	conformance.RunVictim(openVictim)
	os.Exit(m.Run())
}

// openVictim opens a sink that appends, so that a change which is made twice shows.
func openVictim(ctx context.Context, args []string) (p conformance.Promiser, err error) {
	c := &SinkConfig{Path: args[0], Table: "{schema}.{table}", Write: writeAppend, Schema: connectors.FollowAll(connectors.Evolve),
		Unrepresentable: connectors.UnrepresentableText, Memory: 256 << 20, Threads: 1}
	if err := c.Validate(); err != nil {
		return p, err
	}
	table := pairs(0)
	p = conformance.Promiser{Stream: "shop.pair/0", Batch: func(first, count int64) connectors.Batch {
		var changes []connectors.Change
		for n := first; n < first+count; n++ {
			changes = append(changes, connectors.Change{Op: connectors.Insert, Table: table, Offset: n, After: pair(n, "x")})
		}
		return connectors.Batch{Stream: "shop.pair/0", Changes: changes, Position: strconv.AppendInt(nil, first+count, 10)}
	}}
	p.Sink, err = open(ctx, c, connectors.NewEnv("lake"))
	return p, err
}

// TestKill ends writers with SIGKILL: every row that was promised is there, and each is there once.
func TestKill(t *testing.T) {
	s := newStore(t)
	promised := int64(0)
	for round := range 4 {
		promised = conformance.KillVictim(t, promised+int64(20+37*round), nil, s.c.Path)
		got := s.lines("SELECT count(*), count(DISTINCT a), min(a), max(a) + 1 FROM shop.pair")[0]
		var n, different, first, next int64
		if _, err := fmt.Sscanf(got, "%d|%d|%d|%d", &n, &different, &first, &next); err != nil {
			t.Fatal(err)
		}
		if n < promised || n != different || first != 0 || next != n {
			t.Fatalf("round %d: %s, and %d were promised", round, got, promised)
		}
		promised = n
	}
	if got := s.lines(`SELECT CAST(position AS VARCHAR) FROM main._trunkline_offsets WHERE stream = 'shop.pair/0'`)[0]; got != strconv.FormatInt(promised, 10) {
		t.Errorf("position %s with %d rows", got, promised)
	}
}
