//go:build duckdb

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// Temporary tables, whose rows no log and no file of the database sees:
//
//	_trunkline_stage  n, the number of the row; gone; bare, of one that is gone and has its key alone; c0 c1 … the columns
//	_trunkline_lack   of rows that lack columns, where the store may have them: n; place, the lower is meant first;
//	                  lacks, the number of a set of columns; k0 k1 … the key
const (
	stageTable = "_trunkline_stage"
	lackTable  = "_trunkline_lack"
)

// group is what a batch has for one target.
type group struct {
	target  *target
	entries []entry
}

// entry is one row.
type entry struct {
	values []connectors.Value // parallel to the table's columns
	from   []fold.Key
	index  int // of the change in the batch
	gone   bool
	bare   bool // it is gone, and values has its key alone
}

// apply brings a group into its target, within a transaction.
func (s *sink) apply(ctx context.Context, g *group) error {
	if err := s.stage(ctx, g); err != nil {
		return fmt.Errorf("stage rows for %s: %w", g.target.name, err)
	}
	if err := s.complete(ctx, g); err != nil {
		return fmt.Errorf("read rows before their change from %s: %w", g.target.name, err)
	}
	for _, statement := range g.target.merge() {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("write into %s: %w", g.target.name, err)
		}
	}
	return nil
}

// stage puts the rows of a group into the stage.
func (s *sink) stage(ctx context.Context, g *group) error {
	columns := []string{"n INTEGER", "gone BOOLEAN", "bare BOOLEAN"}
	for i, c := range g.target.cells {
		columns = append(columns, fmt.Sprintf("c%d %s", i, c.stage))
	}
	if err := s.temporary(ctx, stageTable, columns); err != nil {
		return err
	}
	row := make([]driver.Value, len(columns))
	n := 0
	return s.db.appendRows(stageTable, func() ([]driver.Value, bool) {
		if n == len(g.entries) {
			return nil, false
		}
		e := &g.entries[n]
		row[0], row[1], row[2] = int32(n), e.gone, e.bare
		for i, column := range g.target.columns {
			row[3+i] = g.target.cells[i].staged(e.values[column])
		}
		n++
		return row, true
	})
}

// staged returns what the appender takes for a value. What the column cannot hold was replaced before, by the fitter.
func (c *cell) staged(v connectors.Value) driver.Value {
	if v.IsNull() || v.IsAbsent() {
		return nil
	}
	value, ok := c.parse(v)
	if !ok {
		return nil
	}
	return value
}

func (s *sink) temporary(ctx context.Context, name string, columns []string) error {
	_, err := s.db.ExecContext(ctx, "CREATE OR REPLACE TEMP TABLE "+name+" ("+strings.Join(columns, ", ")+")")
	return err
}

// complete fills in what rows do not carry from what the target has of them, if any row lacks something.
func (s *sink) complete(ctx context.Context, g *group) error {
	tg := g.target
	var sets [][]int // of places in tg.columns
	type place struct{ n, from, set int }
	var lacks []place
	for n := range g.entries {
		e := &g.entries[n]
		if len(e.from) == 0 {
			continue
		}
		var set []int
		for i, column := range tg.columns {
			if e.values[column].IsAbsent() {
				set = append(set, i)
			}
		}
		at := slices.IndexFunc(sets, func(known []int) bool { return slices.Equal(known, set) })
		if at < 0 {
			at, sets = len(sets), append(sets, set)
		}
		for from := range e.from {
			lacks = append(lacks, place{n, from, at})
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	columns := []string{"n INTEGER", "place INTEGER", "lacks INTEGER"}
	for i, k := range tg.key {
		columns = append(columns, fmt.Sprintf("k%d %s", i, tg.cells[k].stage))
	}
	if err := s.temporary(ctx, lackTable, columns); err != nil {
		return err
	}
	row := make([]driver.Value, len(columns))
	err := s.db.appendRows(lackTable, func() ([]driver.Value, bool) {
		if len(lacks) == 0 {
			return nil, false
		}
		l := lacks[0]
		lacks = lacks[1:]
		row[0], row[1], row[2] = int32(l.n), int32(l.from), int32(l.set)
		for i, k := range tg.key {
			row[3+i] = tg.cells[k].staged(g.entries[l.n].from[l.from].Values[i])
		}
		return row, true
	})
	for at := 0; err == nil && at < len(sets); at++ {
		if len(sets[at]) > 0 {
			_, err = s.db.ExecContext(ctx, tg.fill(at, sets[at]))
		}
	}
	return err
}

// sift finds the rows that the store refuses, after a transaction with all of them was refused with err. They are tried by
// halves, and nothing of it stays.
func (s *sink) sift(ctx context.Context, parts []part, err error) error {
	var refused []connectors.RowError
	for _, p := range parts {
		for _, g := range p.groups {
			found, tryErr := s.refused(ctx, g)
			if tryErr != nil {
				return fmt.Errorf("find the refused rows of a batch: %w", tame(tryErr))
			}
			refused = append(refused, found...)
		}
	}
	if len(refused) == 0 { // each row alone is taken: it is their company
		return fmt.Errorf("write batch: %w", tame(err))
	}
	slices.SortFunc(refused, func(a, b connectors.RowError) int { return a.Index - b.Index })
	return &connectors.RowsError{Rows: slices.CompactFunc(refused, func(a, b connectors.RowError) bool { return a.Index == b.Index })}
}

// errTried undoes a transaction that went well.
var errTried = errors.New("tried")

func (s *sink) refused(ctx context.Context, g group) ([]connectors.RowError, error) {
	if len(g.entries) == 0 {
		return nil, nil
	}
	err := s.db.transact(ctx, func() error {
		if err := s.apply(ctx, &g); err != nil {
			return err
		}
		return errTried
	})
	switch {
	case errors.Is(err, errTried):
		return nil, nil
	case !isRow(err):
		return nil, err
	case len(g.entries) == 1:
		return []connectors.RowError{{Index: g.entries[0].index, Err: tame(err)}}, nil
	}
	middle := len(g.entries) / 2
	first, err := s.refused(ctx, group{g.target, g.entries[:middle]})
	if err != nil {
		return nil, err
	}
	second, err := s.refused(ctx, group{g.target, g.entries[middle:]})
	return append(first, second...), err
}
