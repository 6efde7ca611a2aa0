package clickhouse_test

import (
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// F27: an instant is the same instant in ClickHouse, the two of an hour that comes twice in autumn are two, and a wall clock
// that no zone has in spring stays what it is.
func TestInstantsAndWallClocks(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{Schema: "shop", Name: "w", Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Type: "int(11)", Kind: connectors.Int, NotNull: true}, {Name: "ts", Type: "timestamp", Kind: connectors.TimestampTZ},
		{Name: "dt", Type: "datetime", Kind: connectors.Timestamp}}}
	row := func(id int64, ts, dt string) connectors.Change {
		return connectors.Change{Op: connectors.Insert, Table: table, After: []connectors.Value{connectors.IntValue(id), value(connectors.TimestampTZ, ts), value(connectors.Timestamp, dt)}}
	}
	rows := []connectors.Change{row(1, "2026-01-30T17:34:56Z", "2026-01-30T12:34:56"), row(2, "2026-11-01T05:30:00Z", "2026-03-08T02:30:00"), row(3, "2026-11-01T06:30:00Z", "2026-11-01T01:30:00")}
	for query, server := range map[string]*server{
		"concat(toString(toUnixTimestamp64Micro(assumeNotNull(ts))), ' ', toString(assumeNotNull(dt)))": startNew(t),
		"concat(assumeNotNull(ts), ' ', assumeNotNull(dt))":                                             startOld(t),
	} {
		s := server.store(t)
		s.must(s.sink().Write(t.Context(), batch(0, rows...)))
		want := "1769794496000000 2026-01-30 12:34:56.000000,1793511000000000 2026-03-08 02:30:00.000000,1793514600000000 2026-11-01 01:30:00.000000"
		if !server.modern { // which has no type for them
			want = "2026-01-30T17:34:56Z 2026-01-30T12:34:56,2026-11-01T05:30:00Z 2026-03-08T02:30:00,2026-11-01T06:30:00Z 2026-11-01T01:30:00"
		}
		if got := s.text("SELECT arrayStringConcat(groupArray(t), ',') FROM (SELECT " + query + " AS t FROM SCHEMA.w FINAL ORDER BY id)"); got != want {
			t.Errorf("%s: %s\nwant %s", server.name, got, want)
		}
	}
}
