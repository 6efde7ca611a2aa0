package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A stage is a temporary table in the shape of a target. Rows that may meet rows of the target go there first, by COPY,
// and from there by one statement. It lives as long as the session and is emptied by every commit. The server empties
// all that a session has at each commit, so a sink keeps only those that it used last.

// stageHold is a stage that this transaction dropped, to be had again if the transaction fails.
type stageHold struct {
	target *target
	name   string
}

// openStage makes the stage of t, and empties it when this transaction has used it before.
func (s *Sink) openStage(ctx context.Context, t *target) error {
	if t.stage == "" {
		if err := s.createStage(ctx, t); err != nil {
			return fmt.Errorf("create stage of %s: %w", t.sql, s.fault(err))
		}
	}
	if t.staged == 0 {
		s.used = append(s.used, t)
		return nil
	}
	sql := "DELETE FROM " + t.stage
	if t.staged > maxStaged {
		sql, t.staged = "TRUNCATE "+t.stage, 0
	}
	_, err := s.exec(ctx, sql)
	return s.fault(err)
}

func (s *Sink) createStage(ctx context.Context, t *target) error {
	var sql string
	if len(s.staged) >= maxStages {
		// The oldest that this transaction has not used. If it used them all there are more for once.
		at := slices.IndexFunc(s.staged, func(o *target) bool { return !slices.Contains(s.used, o) && !slices.Contains(s.created, o) })
		if at >= 0 {
			old := s.staged[at]
			sql = "DROP TABLE " + old.stage + "; "
			s.dropped = append(s.dropped, stageHold{old, old.stage})
			s.staged = slices.Delete(s.staged, at, at+1)
			old.stage = ""
		}
	}
	s.stages++
	name := "trunkline_stage_" + strconv.Itoa(s.stages)
	var list []string
	for _, c := range t.columns {
		if !c.generated {
			list = append(list, c.sql)
		}
	}
	sql += "CREATE TEMP TABLE " + name + " ON COMMIT DELETE ROWS AS SELECT " + strings.Join(list, ", ") + " FROM " + t.sql + " WITH NO DATA"
	if _, err := s.exec(ctx, sql); err != nil {
		return err
	}
	t.stage, t.staged = "pg_temp."+name, 0
	s.created = append(s.created, t)
	s.staged = append(s.staged, t)
	return nil
}

// settleStages ends the transaction for the stages: those that a failed one created are gone, those that it dropped are
// there again, and all are empty.
func (s *Sink) settleStages(failed bool) {
	if failed {
		for _, t := range s.created {
			s.loseStage(t)
		}
		for _, d := range s.dropped {
			d.target.stage = d.name
			s.staged = append(s.staged, d.target)
		}
	}
	for _, t := range s.used {
		t.staged = 0
	}
	s.created, s.used, s.dropped = s.created[:0], s.used[:0], s.dropped[:0]
}

func (s *Sink) loseStage(t *target) {
	t.stage = ""
	s.staged = slices.DeleteFunc(s.staged, func(o *target) bool { return o == t })
}

// dropStage drops the stage of a target whose shape may change. It is not called inside a transaction.
func (s *Sink) dropStage(ctx context.Context, schema, name string) error {
	t := s.targets[qualified(schema, name)]
	if t == nil || t.stage == "" {
		return nil
	}
	_, err := s.exec(ctx, "DROP TABLE IF EXISTS "+t.stage)
	s.loseStage(t)
	return s.fault(err)
}
