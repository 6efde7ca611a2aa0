package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// load lists the tables and takes up their marks.
func (s *extract) load(ctx context.Context) error {
	list, err := s.catalog.relations(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(r *relation) bool { return r.spec.Query != "" }) // the query has the table's name
	queries, wrong, err := s.catalog.queries(ctx)
	if err != nil {
		return err
	}
	list = append(list, queries...)
	old := s.tables
	s.tables, s.scanned = nil, time.Now()
	var refused error
	refuse := func(table, problem, remedy string) {
		refused = fmt.Errorf("table %s %s; %s", table, problem, remedy)
		s.env.Report(connectors.Report{Table: table, Phase: connectors.PhaseFailed, Reason: problem + "; " + remedy})
	}
	for _, f := range wrong {
		refuse(f.Subject, f.Problem, f.Remedy)
	}
	for _, r := range list {
		var t *extractTable
		problem, remedy := r.problem(false)
		if problem == "" {
			shape, err := s.catalog.shapeOf(ctx, r)
			if err != nil {
				return err
			}
			t, problem, remedy = s.tableOf(r, shape)
		}
		if problem != "" {
			refuse(r.full(), problem, remedy)
			continue
		}
		s.adopt(t, old)
		s.tables = append(s.tables, t)
	}
	for i := range s.config.Tables {
		spec := &s.config.Tables[i]
		if spec.Query == "" && !slices.ContainsFunc(list, func(r *relation) bool { return spec.Matches(r.full()) }) {
			s.env.Report(connectors.Report{Table: spec.Name, Phase: connectors.PhaseFailed, Reason: "no such table in the database, or it is a partition (name its root)"})
		}
	}
	if len(s.tables) == 0 && refused != nil {
		return fmt.Errorf("%w: %w", refused, connectors.ErrFatal)
	}
	if len(s.tables) == 0 {
		return fmt.Errorf("no table of database %q matches tables: %w", s.server.database, connectors.ErrFatal)
	}
	return errors.Join(s.findIndexes(ctx), s.deletes.keepOnly(ctx, s.mark))
}

// adopt gives a table its mark, and what is known from an earlier listing.
func (s *extract) adopt(t *extractTable, old []*extractTable) {
	oid := t.relation.oid
	t.mark = s.mark.Tables[oid]
	if s.leave != nil {
		t.mark = s.leave.table(t)
		s.mark.Tables[oid] = t.mark
	}
	if t.mark == nil || !t.fits(t.mark) {
		t.mark = &tableMark{Cursor: t.cursor.name, First: true}
		s.mark.Tables[oid] = t.mark
	}
	t.mark.Name = t.relation.full()
	if i := slices.IndexFunc(old, func(o *extractTable) bool { return o.relation.oid == oid }); i >= 0 {
		o := old[i]
		t.rows, t.nulls, t.waiting, t.counted, t.indexed, t.size = o.rows, o.nulls, o.waiting, o.counted, o.indexed, o.size
		if o.shape.table.Equal(t.shape.table) {
			t.shape.table = o.shape.table // one pointer for one version
		}
		return
	}
	s.announce(t)
}

// announce tells what will be done with a table.
func (s *extract) announce(t *extractTable) {
	r := connectors.Report{Table: t.relation.full(), Phase: connectors.PhaseStreaming}
	if t.mark.First {
		r = connectors.Report{Table: t.relation.full(), Phase: connectors.PhaseSnapshot, Rows: t.rows, Total: t.relation.estimate}
	}
	s.env.Report(r)
	if t.nullable && !t.withNulls && t.mark.First {
		s.env.Logger.Warn("the cursor may be NULL: rows without one are not read (null_cursor: first reads them)", "source", s.env.Name, "table", t.relation.full())
	}
}

// account reports the rows that a pass could not hand over.
func (s *extract) account(ctx context.Context, t *extractTable, waiting int64) error {
	raise := func() error { return s.run.raiseFloor(ctx, t, waiting, s.config.Settle) }
	if t.relation.spec.Query != "" {
		raise = func() error { return s.run.raiseBound(ctx, t) }
	}
	if err := raise(); err != nil {
		return err
	}
	if waiting != t.waiting {
		t.waiting = waiting
		s.env.Report(connectors.Report{Table: t.relation.full(), Waiting: &waiting})
	}
	if !t.nullable || t.withNulls || time.Since(t.counted) < s.config.Rescan {
		return nil
	}
	t.counted = time.Now()
	condition := ""
	if t.relation.spec.Where != "" {
		condition = " AND (" + t.relation.spec.Where + ")"
	}
	var n int64
	err := s.run.conn.QueryRow(ctx, "SELECT count(*) FROM "+t.from()+" WHERE "+ident(t.cursor.name)+" IS NULL"+condition).Scan(&n)
	if err != nil {
		return fmt.Errorf("count rows of table %s without a cursor: %w", t.relation.full(), err)
	}
	if n != t.nulls {
		t.nulls = n
		s.env.Report(connectors.Report{Table: t.relation.full(), Unseen: &n,
			Reason: fmt.Sprintf("%d rows have NULL in the cursor column %s: what happens to them is not seen", n, t.cursor.name)})
	}
	return nil
}

// prepare makes sure that the table is described as the run sees it.
func (s *extract) prepare(ctx context.Context, t *extractTable) error {
	same, err := s.run.settle(ctx, t)
	if err != nil || same {
		return err
	}
	fresh, err := s.refresh(ctx, t.relation)
	if err != nil {
		return err
	}
	shape, err := s.catalog.shapeOf(ctx, fresh)
	if err != nil {
		return err
	}
	anew, problem, remedy := s.tableOf(fresh, shape)
	if problem != "" {
		return fmt.Errorf("%s; %s: %w", problem, remedy, errGone)
	}
	s.adopt(anew, []*extractTable{t})
	*t = *anew
	return nil
}

// tableOf makes a table of a relation, which may be a query.
func (s *extract) tableOf(r *relation, shape *shape) (t *extractTable, problem, remedy string) {
	if r.spec.Query != "" {
		return newQueryTable(r, shape)
	}
	return newExtractTable(r, shape, s.config.NullCursor == nullFirst)
}

// refresh describes a relation anew.
func (s *extract) refresh(ctx context.Context, old *relation) (*relation, error) {
	if old.spec.Query == "" {
		fresh, found, err := s.catalog.refresh(ctx, old)
		if err == nil && !found {
			err = errGone
		}
		return fresh, err
	}
	fresh := *old
	err := s.catalog.do(ctx, func(conn *pgx.Conn) (err error) {
		fresh.columns, err = describeQuery(ctx, conn, old.spec)
		return err
	})
	return &fresh, err
}
