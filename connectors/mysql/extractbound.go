package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

const (
	// boundMargin makes up for what the server's lists of transactions and statements do not show: they have whole seconds.
	boundMargin = time.Second

	// listIdle is for how long nobody must have read the list of transactions before the server makes a new one: InnoDB
	// keeps a copy of it, which lives as long as readers come more often than each tenth of a second.
	listIdle = 100 * time.Millisecond

	// listAttempts is how often a new list is waited for, which takes some seconds.
	listAttempts = 20

	clockLayout = "2006-01-02 15:04:05.000000"

	nullFirst = "first"
	nullSkip  = "skip"
)

// validateExtract checks the settings of mode timestamp.
func (c *SourceConfig) validateExtract() error {
	if c.Poll <= 0 || c.Settle <= 0 {
		return fmt.Errorf("poll and settle must be longer than nothing")
	}
	for i := range c.Tables {
		switch t := &c.Tables[i]; {
		case t.Query != "":
			if err := validateQuery(t); err != nil {
				return err
			}
		case t.Cursor == "":
			return fmt.Errorf("tables: %q has no cursor, which mode timestamp needs: the column that grows", t.Name)
		}
	}
	return errors.Join(choice("deletes", c.Deletes, deletesIgnore, deletesDetect), choice("null_cursor", c.NullCursor, nullFirst, nullSkip))
}

// opened is how long the oldest transaction or statement of others has been going on.
type opened struct {
	any   bool
	age   time.Duration // of the oldest stamp that what is open may have made
	utc   string        // now, 2026-01-30 12:34:56.123456
	began string        // when the oldest began, less the margin, in UTC
	safe  string        // nothing that is open has stamped less: now less the age and the margin, in UTC
	here  string        // the same in the server's own time zone, which DATETIME columns are in
}

// look asks what is open. The time of o is one before the list was made, so that whoever is not in the list stamps later.
// Where the transactions of others cannot be seen it takes the settle time for the age.
func (s *extract) look(ctx context.Context) (o opened, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return o, fmt.Errorf("ask for open transactions: %w", settle(err))
	}
	defer conn.Close()
	defer func() { // the connection goes back to others
		if _, back := conn.ExecContext(context.WithoutCancel(ctx), "SET time_zone = '+00:00'"); back != nil && err == nil {
			err = back
		}
	}()
	var here string
	for attempt := 1; ; attempt++ {
		if _, err = conn.ExecContext(ctx, "SET time_zone = @@global.time_zone"); err != nil {
			return o, fmt.Errorf("ask for the time: %w", err)
		}
		if err = conn.QueryRowContext(ctx, "SELECT CAST(UTC_TIMESTAMP(6) AS CHAR), CAST(NOW(6) AS CHAR)").Scan(&o.utc, &here); err != nil {
			return o, fmt.Errorf("ask for the time: %w", err)
		}
		l, err := listOpen(ctx, conn, s.server.maria)
		switch {
		case code(err) == errSpecificDenied:
			s.blind(&o, "our user may not see the transactions of others", "; GRANT PROCESS ON *.* TO our user")
		case err != nil:
			return o, fmt.Errorf("ask for open transactions: %w", settle(err))
		case l.fresh:
			s.listless = false
			if err := s.weigh(&o, l); err != nil {
				return o, err
			}
		case s.listless || attempt == listAttempts:
			s.listless = true
			s.blind(&o, "the server's list of transactions stays an old one, as if someone read information_schema.INNODB_TRX all the time", "")
		default:
			if err := awaitList(ctx, attempt); err != nil {
				return o, err
			}
			continue
		}
		break
	}
	o.safe, o.here, err = before(ctx, conn, o.utc, here, o.age+s.config.margin)
	return o, err
}

// before returns a moment that lies so long before another one, in UTC and in the server's zone. Where that changes its offset
// in between there are two such times on the wall; the earlier one is right for both.
func before(ctx context.Context, conn *sql.Conn, utc, here string, age time.Duration) (safe, local string, err error) {
	if _, err = conn.ExecContext(ctx, "SET time_zone = @@global.time_zone"); err != nil {
		return "", "", fmt.Errorf("ask for the time: %w", err)
	}
	err = conn.QueryRowContext(ctx, fmt.Sprintf(`SELECT CAST(CAST(? AS DATETIME(6)) - INTERVAL %[1]d MICROSECOND AS CHAR), CAST(LEAST(CAST(? AS DATETIME(6)) - INTERVAL %[1]d MICROSECOND,
CAST(FROM_UNIXTIME(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', CAST(? AS DATETIME(6)) - INTERVAL %[1]d MICROSECOND) * 0.000001) AS DATETIME(6))) AS CHAR)`, age.Microseconds()), utc, here, utc).Scan(&safe, &local)
	if err != nil {
		return "", "", fmt.Errorf("ask for the time: %w", err)
	}
	return safe, local, nil
}

// listed is what others have open.
type listed struct {
	fresh       bool            // the list was made for our question
	transaction sql.NullFloat64 // for how many seconds the oldest transaction has been open
	writer      sql.NullFloat64 // likewise, the oldest of those that have written
	statement   sql.NullFloat64 // for how many seconds the oldest statement has been running
}

// listOpen asks for the oldest transaction and the oldest running statement of others: one that waits for a lock has its time, but
// not yet a transaction. It asks within a transaction of its own, which a list that was made for this question shows with
// the very text of the question. Without that row the list is an old one, and says nothing about now. The statements come first:
// of one that ends meanwhile without its transaction, the transaction is in the list.
func listOpen(ctx context.Context, conn *sql.Conn, maria bool) (l listed, err error) {
	for _, statement := range []string{"SET time_zone = 'SYSTEM'", beginReadOnly, beginSnapshot} { // the list is in the machine's time
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return l, err
		}
	}
	defer func() {
		if _, end := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); end != nil && err == nil {
			err = end
		}
	}()
	duration := "TIME"
	if maria {
		duration = "TIME_MS / 1000"
	}
	if err := conn.QueryRowContext(ctx, `SELECT MAX(`+duration+`) FROM information_schema.PROCESSLIST
WHERE ID <> CONNECTION_ID() AND COMMAND NOT IN ('Sleep', 'Binlog Dump', 'Binlog Dump GTID', 'Daemon') AND USER <> 'system user' AND COALESCE(INFO, '') NOT LIKE '`+waitForLock+`(%'`).Scan(&l.statement); err != nil {
		return l, err
	}
	sign := fmt.Sprintf("trunkline asks %016x", rand.Uint64())
	var own int
	err = conn.QueryRowContext(ctx, `SELECT /* `+sign+` */ COUNT(CASE WHEN trx_mysql_thread_id = CONNECTION_ID() AND trx_query LIKE '%`+sign+`%' THEN 1 END),
TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN trx_mysql_thread_id <> CONNECTION_ID() THEN trx_started END), NOW(6)) / 1000000,
TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN trx_mysql_thread_id <> CONNECTION_ID() AND trx_rows_modified > 0 THEN trx_started END), NOW(6)) / 1000000
FROM information_schema.INNODB_TRX`).Scan(&own, &l.transaction, &l.writer)
	if err != nil || own == 0 {
		return l, err
	}
	l.fresh = true
	for _, age := range []*sql.NullFloat64{&l.transaction, &l.writer} {
		if age.Valid {
			if age.Float64, err = trueAge(ctx, conn, age.Float64); err != nil {
				return l, err
			}
		}
	}
	return l, nil
}

// trueAge makes seconds between two times on the wall, the later of which is now, seconds that have passed. If the wall's zone
// may have gone back since the earlier one, more have. A time in the future is one from before the clock was set back, and
// nobody knows how old it is.
func trueAge(ctx context.Context, conn *sql.Conn, seconds float64) (float64, error) {
	const hour = 3600
	elapsed := int64(max(seconds, 0)) + 1 + hour
	var shift int64
	err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT TIMESTAMPDIFF(SECOND, FROM_UNIXTIME(n), FROM_UNIXTIME(n - %d)) + %[1]d FROM (SELECT UNIX_TIMESTAMP() AS n) AS t", elapsed)).Scan(&shift)
	if err != nil {
		return 0, err
	}
	seconds += float64(max(shift, 0))
	for seconds < -boundMargin.Seconds() {
		seconds += hour
	}
	return max(seconds, 0), nil
}

// A statement that waits for the lock of a table's definition has its time, but gets its transaction only afterwards, which so is
// younger than what it stamps. What a transaction has written when it is seen was not yet there at a look before it began:
// the statement that stamped it was running then, or began since. So nothing that it stamped is older than that look and
// the statements that it saw.

// glimpse is one look at what is open, in microseconds since 1970 by the server's clock.
type glimpse struct {
	At    int64 `json:"at"`
	Since int64 `json:"since"` // when the oldest statement began that was running
}

// weigh takes the oldest of what is open for the age, or what was going on at the last look before it, if that is older.
func (s *extract) weigh(o *opened, l listed) error {
	now, err := time.Parse(clockLayout, o.utc)
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	o.any = l.transaction.Valid || l.statement.Valid
	statement := inSeconds(l.statement.Float64)
	o.age = max(inSeconds(l.transaction.Float64), statement)
	o.began = now.Add(-o.age - s.config.margin).Format(clockLayout)
	if s.looked == 0 || s.early() {
		s.looked = now.UnixMicro()
	}
	s.held = false
	looks := s.mark.Looks
	if n := len(looks); n > 0 && looks[n-1].At > now.Add(s.config.margin).UnixMicro() {
		looks = nil // the clock was set back
	}
	if !l.writer.Valid {
		looks = nil // who writes from here on has written nothing yet
	} else {
		began := now.Add(-inSeconds(l.writer.Float64))
		if len(looks) == 0 { // nobody looked before
			looks = []glimpse{{began.UnixMicro() - 1, began.Add(-s.config.Settle).UnixMicro()}}
		}
		for len(looks) > 1 && looks[1].At < began.UnixMicro() {
			looks = looks[1:]
		}
		o.age = max(o.age, now.Sub(time.UnixMicro(looks[0].Since)))
		s.held = looks[0].At < s.looked
	}
	s.mark.Looks = thin(append(slices.Clone(looks), glimpse{now.UnixMicro(), now.Add(-statement).UnixMicro()}))
	return nil
}

func inSeconds(n float64) time.Duration { return time.Duration(max(n, 0) * float64(time.Second)) }

// blind takes the settle time for the age.
func (s *extract) blind(o *opened, why, remedy string) {
	if !s.warned {
		s.warned = true
		reason := fmt.Sprintf("%s: rows are read when they are %s old, and what a longer transaction stamped is missed%s", why, s.config.Settle, remedy)
		s.env.Report(connectors.Report{Reason: reason})
		s.env.Logger.Warn("blind bound", "source", s.env.Name, "reason", reason)
	}
	o.any, o.age = true, s.config.Settle
	if now, err := time.Parse(clockLayout, o.utc); err == nil {
		o.began = now.Add(-o.age - s.config.margin).Format(clockLayout)
	}
}

// awaitList waits until the server can make a new list. Each wait is another one, so that two who wait for it get apart.
func awaitList(ctx context.Context, attempt int) error {
	timer := time.NewTimer(listIdle + rand.N(min(time.Duration(attempt)*listIdle, time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bounds settles for each table up to where rows can be read. Numbers have no time. The highest one of an earlier moment is
// a bound when whatever was open then has ended, because who comes later gets a higher one.
func (s *extract) bounds(ctx context.Context) (o opened, err error) {
	highs := map[*extractTable]string{}
	for _, t := range s.tables {
		if !t.numbers || t.failed {
			continue
		}
		var high sql.NullString
		if err := s.db.QueryRowContext(ctx, "SELECT MAX("+ident(t.spec.Cursor)+") FROM "+t.from()).Scan(&high); err != nil {
			return o, fmt.Errorf("read table %s: %w", t.name.full(), settle(err))
		}
		highs[t] = high.String
	}
	if o, err = s.look(ctx); err != nil { // after the numbers
		return o, err
	}
	for _, t := range s.tables {
		s.turnBack(t, &o)
		if !t.numbers {
			t.timeBound(&o)
			continue
		}
		t.numberBound(highs[t], &o)
	}
	return o, nil
}

// turnBack starts a table anew if the server's clock was set back by more than the margin that a bound is behind it: rows
// stamped since may lie behind the mark, and nobody can tell which. What stands between the clock and the old mark comes
// again as the clock passes it.
func (s *extract) turnBack(t *extractTable, o *opened) {
	m := t.mark
	was := m.Clock
	m.Clock = o.utc
	before, err := time.Parse(clockLayout, was)
	now, err2 := time.Parse(clockLayout, o.utc)
	if err != nil || err2 != nil || before.Sub(now) <= s.config.margin { // the first run has none from before
		return
	}
	m.Highs, m.Brought, m.BroughtAt = nil, nil, "" // their times are of the other clock
	if t.numbers || m.First {
		return
	}
	m.After = nil
	s.env.Logger.Warn("the clock was set back: reading the table again", "source", s.env.Name, "table", t.name.full())
	s.env.Report(connectors.Report{Table: t.name.full(), Reason: "the server's clock was set back from " + was + " to " + o.utc + " (UTC): the table was read again"})
}

// timeBound takes the time before which nothing is stamped any more. A DATE is that of a whole day, which has to be over.
func (t *extractTable) timeBound(o *opened) {
	bound := o.here
	switch t.shape.decoders[t.cursor].form {
	case formTimestamp:
		bound = o.safe
	case formDate:
		bound, _, _ = strings.Cut(bound, " ")
	}
	t.bound, t.boundAt = "< '"+bound+"'", o.safe
}

// numberBound takes the highest number of the latest run at which nothing was open that is open now. Every run leaves one, so
// that the bound follows the numbers closely however many transactions overlap.
func (t *extractTable) numberBound(number string, o *opened) {
	m := t.mark
	t.bound, t.boundAt = "", o.utc
	if number == "" {
		t.bound = "< 0 AND FALSE" // the table is empty; what comes into it meanwhile waits
		return
	}
	if !o.any {
		t.bound, m.Highs = "<= "+number, nil
		return
	}
	for len(m.Highs) > 0 && m.Highs[0].At < o.began {
		t.bound, t.boundAt = "<= "+m.Highs[0].Number, m.Highs[0].At
		m.Highs = slices.Clone(m.Highs[1:])
	}
	m.Highs = thin(append(m.Highs, high{number, o.utc}))
}

// maxHighs bounds the list of a mark.
const maxHighs = 64

// thin drops every other one of a list that is too long, but not the first, which becomes a bound first.
func thin[T any](list []T) []T {
	if len(list) <= maxHighs {
		return list
	}
	var out []T
	for i, h := range list {
		if i%2 == 0 || i == len(list)-1 {
			out = append(out, h)
		}
	}
	return out
}

// above is the condition for the rows that wait.
func (t *extractTable) above() string {
	name := ident(t.spec.Cursor)
	if t.bound == "" {
		if len(t.mark.After) > 0 {
			return name + " > " + t.mark.After[0]
		}
		return name + " IS NOT NULL"
	}
	return "NOT (" + name + " " + t.bound + ")"
}

// next returns the query for the next rows, empty when there are none in this run.
func (t *extractTable) next(nullsFirst bool, limit int) (statement string, nulls bool) {
	var keys []string
	for _, k := range t.shape.def.Key {
		keys = append(keys, ident(k))
	}
	cursor := ident(t.spec.Cursor)
	var conditions []string
	if t.spec.Where != "" {
		conditions = append(conditions, "("+t.spec.Where+")")
	}
	order := append([]string{cursor}, keys...)
	if t.mark.First && nullsFirst && !t.mark.Nulled && !t.shape.def.Columns[t.cursor].NotNull {
		nulls, order = true, keys
		conditions = append(conditions, cursor+" IS NULL")
		if len(t.mark.Nulls) > 0 {
			conditions = append(conditions, behind(keys, t.mark.Nulls))
		}
	} else {
		if t.bound == "" {
			return "", false
		}
		conditions = append(conditions, cursor+" "+t.bound)
		if len(t.mark.After) > 0 {
			conditions = append(conditions, behind(order[:len(t.mark.After)], t.mark.After))
		}
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d", t.columnList(), t.from(), strings.Join(conditions, " AND "), strings.Join(order, ", "), limit), nulls
}
