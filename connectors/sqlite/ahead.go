package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// A row that is stamped in the future must not hide the ones to come, so where the cursor is a time the place never
// passes the clock: rows ahead of it are handed over at once, and remembered by their hashes until the clock gets there.
// The clock is SQLite's, which is UTC. If more rows are ahead than can be remembered, the cursor is in another time zone;
// then the place follows the rows, as it does where the cursor is a number.
//
// A clock that is set back shows as a place that is ahead of it. Nobody can tell what was stamped since, so the table is
// read again up to the clock; what stands between the clock and the old place was read before, and comes again as the clock
// passes it.

const clockText = "strftime('%Y-%m-%d %H:%M:%f', 'now')"

// look reads the clock in the form of the cursor. t.now is nil where the place may follow the rows.
func (s *source) look(ctx context.Context, q querier, t *table) error {
	t.now = nil
	if t.unique || t.place.Local {
		return nil
	}
	var kind, highest, now *string
	cursor := quote(t.cursor)
	query := "SELECT typeof(m), CAST(m AS TEXT), " + clockText + " FROM (SELECT max(" + cursor + ") AS m FROM " + t.from + ")"
	if err := q.QueryRowContext(ctx, query).Scan(&kind, &highest, &now); err != nil {
		return fmt.Errorf("read clock for %s: %w", t.FullName(), err)
	}
	if now == nil || kind == nil || highest == nil || *kind != "text" || len(*highest) < 10 || !isDate([]byte((*highest)[:10])) {
		return nil
	}
	clock := *now
	if len(*highest) > 10 && (*highest)[10] == 'T' {
		clock = strings.Replace(clock, " ", "T", 1)
	}
	s.turnBack(t, clock)
	after := max(clock, t.place.Until)
	if *highest > after {
		n, err := number(ctx, q, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s > '%s' LIMIT %d)", t.from, cursor, after, maxSeen+1))
		if err != nil {
			return err
		}
		if n > maxSeen {
			t.place.Local = true
			s.env.Report(connectors.Report{Table: t.FullName(), Reason: fmt.Sprintf("more than %d rows are stamped later than now in UTC: a row that is stamped in the future would hide others", maxSeen)})
			return nil
		}
	}
	t.now, t.after = clock, after
	return nil
}

// turnBack starts the table anew if the clock was set back, which shows as a place that is ahead of it.
func (s *source) turnBack(t *table, clock string) {
	p := t.place
	if p.Until <= clock {
		p.Until = ""
	}
	if p.Nulls || p.Snapshot || len(p.At) == 0 || !strings.HasPrefix(p.At[0], "t") || p.At[0][1:] <= clock {
		return
	}
	p.Until, p.At = max(p.Until, p.At[0][1:]), nil
	t.seen.reset()
	s.env.Logger.Warn("the clock was set back: reading the table again", "source", s.env.Name, "table", t.FullName())
	s.env.Report(connectors.Report{Table: t.FullName(), Reason: "the clock was set back to " + clock + ": the table was read again"})
}
