package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Values of scan.
const (
	scanAuto   = "auto"
	scanAlways = "always"
	scanNever  = "never"
)

const (
	scanRate  = 20 << 20 // bytes of tables that a run looks through for each second since the last one
	scanLeast = 16 << 20 // bytes that every run may look through
	maxFloors = 32
)

// floor is what was known at one run: no transaction that begins after it stamps a row with less than the cursor.
type floor struct {
	Clock  int64  `json:"clock"`  // of the server just after the run's moment, in microseconds since 1970
	XMax   uint64 `json:"xmax"`   // transactions from here on began later
	Cursor string `json:"cursor"` // the highest, or the clock where a row was stamped in the future
}

// lookout is what was open on the server just before the moment of a run.
type lookout struct {
	clock   time.Time
	since   time.Time // when the oldest transaction began that may still write
	hidden  bool      // we may not see when the others' transactions began
	standby bool      // likewise, those of the primary
}

const lookoutQuery = `SELECT clock_timestamp(), least(clock_timestamp(), min(xact_start)), coalesce(bool_or(backend_type IS NULL), false), pg_is_in_recovery()
FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (backend_type IS NULL OR xact_start IS NOT NULL)`

// look asks for open transactions. It comes before the moment: a transaction that is open at the moment was open before,
// or began since.
func (r *extractRun) look(ctx context.Context) error {
	l := &r.lookout
	if err := r.conn.QueryRow(ctx, lookoutQuery).Scan(&l.clock, &l.since, &l.hidden, &l.standby); err != nil {
		return fmt.Errorf("ask for open transactions: %w", err)
	}
	return nil
}

// ceiling is an expression for the highest cursor that can be trusted: a row that is stamped in the future says nothing
// about those to come. A timestamp without time zone may be stamped in any, and so is taken for the earliest.
func (t *extractTable) ceiling() string {
	highest := "max(" + ident(t.cursor.name) + ")"
	const earliest = "((now() AT TIME ZONE 'UTC') - interval '12 hours')"
	switch t.cursor.typ.oid {
	case 1184:
		return "least(" + highest + ", now())"
	case 1114:
		return "least(" + highest + ", " + earliest + ")"
	case 1082:
		return "least(" + highest + ", " + earliest + "::date)"
	case 20, 21, 23:
		return fmt.Sprintf("least(%s, pg_sequence_last_value(pg_get_serial_sequence('%s', '%s')::regclass))",
			highest, quoteLiteral(t.relation.ident()), quoteLiteral(t.cursor.name))
	}
	return highest
}

// raiseFloor notes, at the end of a pass, from where on the next one has to look.
func (r *extractRun) raiseFloor(ctx context.Context, t *extractTable, waiting int64, settle time.Duration) error {
	m := t.mark
	m.Clock = r.lookout.clock.UnixMicro()
	if !t.indexed {
		m.Floor, m.Floors = nil, nil
		return nil
	}
	var cursor *string
	if err := r.conn.QueryRow(ctx, "SELECT ("+t.ceiling()+")::text FROM "+t.relation.own()).Scan(&cursor); err != nil {
		return fmt.Errorf("ask for the highest cursor of table %s: %w", t.relation.full(), err)
	}
	if cursor != nil {
		m.Floors = append(m.Floors, floor{r.taken.UnixMicro(), r.seen.xmax, *cursor})
	}
	if waiting == 0 { // what waits was written by transactions that have ended, and began at any time
		if r.lookout.hidden {
			settle = max(settle, defaultSettle)
		}
		since := r.lookout.since.Add(-settle).UnixMicro()
		for len(m.Floors) > 0 && m.Floors[0].Clock <= since && m.Floors[0].XMax <= r.seen.xmin {
			m.Floor = &m.Floors[0].Cursor
			m.Floors = slices.Clone(m.Floors[1:])
		}
	}
	m.Floors = thin(m.Floors)
	return nil
}

// thin leaves out every second of too many floors.
func thin(list []floor) []floor {
	if len(list) <= maxFloors {
		return list
	}
	var kept []floor
	for i, f := range list {
		if i%2 == 0 || i == len(list)-1 {
			kept = append(kept, f)
		}
	}
	return kept
}

// from is the condition on the part of the table that a run looks at; empty: all of it.
func (r *extractRun) reach(t *extractTable, scan string) string {
	m := t.mark
	turned := m.Clock > r.lookout.clock.UnixMicro() // the clock was set back
	switch {
	case t.relation.spec.Query != "", m.Floor == nil, m.First, !t.indexed, scan == scanAlways:
		return ""
	case scan == scanAuto && (turned || r.lookout.standby || t.size <= r.budget):
		r.budget -= t.size
		return ""
	}
	return ident(t.cursor.name) + " >= '" + quoteLiteral(*m.Floor) + "'::" + t.cursor.text
}

// allow sets how much the run may look through, by the time since the last one.
func (r *extractRun) allow(tables []*extractTable) {
	last := int64(0)
	for _, t := range tables {
		last = max(last, t.mark.Clock)
	}
	seconds := r.lookout.clock.Sub(time.UnixMicro(last)).Seconds()
	r.budget = max(scanLeast, int64(min(seconds, 1e6)*scanRate))
}

const cursorIndexes = `SELECT i.indrelid, i.indkey[0] FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE i.indrelid = ANY($1::oid[]) AND i.indisvalid AND i.indpred IS NULL AND a.amname = 'btree'`

// findIndexes notes which tables have an index that begins with the cursor.
func (s *extract) findIndexes(ctx context.Context) error {
	var oids []int64
	for _, t := range s.tables {
		oids = append(oids, int64(t.relation.oid))
	}
	return s.catalog.do(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, cursorIndexes, oids)
		if err != nil {
			return fmt.Errorf("list indexes: %w", err)
		}
		_, err = collect(rows, func(rows pgx.Rows) (none struct{}, err error) {
			var oid uint32
			var column int16
			if err = rows.Scan(&oid, &column); err != nil {
				return none, err
			}
			for _, t := range s.tables {
				t.indexed = t.indexed || t.relation.oid == oid && t.cursor.number == column
			}
			return none, nil
		})
		return err
	})
}
