package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

var (
	errNoKey    = errors.New("a value of the key is NULL or missing")
	errNoOldRow = errors.New("the table has no key and the change does not carry the old row")
)

// writer applies one batch inside a transaction. Whole rows of one table that follow each other are stored together;
// SQLite stores the rows of a statement one after the other, so a key may stand in it more than once. A refused row is
// noted and the rest is tried, so that the caller learns of all of them at once.
type writer struct {
	sink    *sink
	table   *connectors.Table
	target  *target
	run     []int // indexes in the batch
	rows    [][]connectors.Value
	refused []connectors.RowError
	args    []any
}

func (w *writer) change(ctx context.Context, i int, c *connectors.Change) error {
	if c.Op == connectors.Message {
		return nil
	}
	tg, err := w.sink.target(ctx, c.Table)
	if err != nil {
		return err
	}
	if c.Table != w.table {
		if err := w.flush(ctx); err != nil {
			return err
		}
		w.table, w.target = c.Table, tg
	}
	switch c.Op {
	case connectors.Snapshot, connectors.Insert, connectors.Update:
		if w.takes(c) {
			w.run, w.rows = append(w.run, i), append(w.rows, c.After)
			return nil
		}
		return w.single(ctx, i, func() error { return w.store(ctx, c) })
	case connectors.Delete:
		if w.sink.config.Deletes == IgnoreDeletes {
			return nil
		}
		return w.single(ctx, i, func() error { return w.remove(ctx, c.Before) })
	case connectors.Truncate:
		if w.sink.config.Deletes == IgnoreDeletes || w.sink.config.Write == Append {
			return nil
		}
		return w.single(ctx, i, func() error { return w.exec(ctx, tg.gone(), nil) })
	}
	return fmt.Errorf("apply change %d: operation %v: %w", i, c.Op, errors.ErrUnsupported)
}

// takes reports whether the row can be stored together with others.
func (w *writer) takes(c *connectors.Change) bool {
	if len(c.After) != len(c.Table.Columns) || !w.target.isWhole(c.After) || len(w.target.columns) == 0 {
		return false
	}
	if len(w.target.key) == 0 {
		return c.Op != connectors.Update || w.sink.config.Write == Append
	}
	return w.target.hasKey(c.After) && !w.moves(c)
}

// hasKey reports that the key is complete.
func (t *target) hasKey(row []connectors.Value) bool {
	if row == nil {
		return false
	}
	return !slices.ContainsFunc(t.key, func(k int) bool { return row[k].IsNull() || row[k].IsAbsent() })
}

// moves reports an update of the key.
func (w *writer) moves(c *connectors.Change) bool {
	if c.Op != connectors.Update || !w.target.hasKey(c.Before) {
		return false
	}
	return slices.ContainsFunc(w.target.key, func(k int) bool { return !c.Before[k].Equal(c.After[k]) })
}

// single applies one change after the run before it.
func (w *writer) single(ctx context.Context, i int, do func() error) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	return w.verdict(i, do())
}

// verdict notes a refused row and passes every other error on.
func (w *writer) verdict(i int, err error) error {
	if isRow(err) || errors.Is(err, errNoKey) || errors.Is(err, errNoOldRow) {
		w.refused = append(w.refused, connectors.RowError{Index: i, Err: err})
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply change %d: %w", i, err)
	}
	return nil
}

func (w *writer) exec(ctx context.Context, query string, args []any) error {
	_, err := w.sink.statements.exec(ctx, query, args...)
	return err
}

// store stores a row that lacks columns, has moved, or has no key to find it by.
func (w *writer) store(ctx context.Context, c *connectors.Change) error {
	tg := w.target
	if len(c.After) != len(c.Table.Columns) {
		return errNoKey
	}
	switch {
	case w.sink.config.Write == Append || len(tg.key) == 0 && c.Op != connectors.Update:
		columns := tg.present(c.After)
		return w.exec(ctx, tg.insert(c.Table, columns, 1), tg.bind(nil, c.Table, c.After, columns))
	case len(tg.key) == 0:
		return w.replace(ctx, c)
	case !tg.hasKey(c.After):
		return errNoKey
	case w.moves(c):
		return w.move(ctx, c)
	}
	return w.merge(ctx, c.After)
}

// merge updates the row of the key with the columns that the change carries, and inserts them if there is no such row.
// An INSERT first would fail where a column that the change does not carry is NOT NULL.
func (w *writer) merge(ctx context.Context, row []connectors.Value) error {
	tg := w.target
	columns := tg.present(row)
	others := slices.DeleteFunc(slices.Clone(columns), func(c int) bool { return slices.Contains(tg.key, c) })
	if len(others) > 0 {
		n, err := w.update(ctx, row, row, others)
		if err != nil || n > 0 {
			return err
		}
	}
	return w.exec(ctx, tg.insert(w.table, columns, 1), tg.bind(nil, w.table, row, columns))
}

// update sets columns of the row that has the key of old.
func (w *writer) update(ctx context.Context, old, row []connectors.Value, columns []int) (int64, error) {
	tg := w.target
	args := tg.bind(nil, w.table, row, columns)
	return w.sink.statements.exec(ctx, tg.set(w.table, columns)+" WHERE "+tg.where(w.table), tg.bind(args, w.table, old, tg.key)...)
}

// move gives a row another key. A row that has the new key already makes room only if the old one is there: when the
// change is applied a second time, the row with the new key is the moved one.
func (w *writer) move(ctx context.Context, c *connectors.Change) error {
	tg := w.target
	var found int
	err := w.sink.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+tg.name+" WHERE "+tg.where(w.table)+")",
		tg.bind(nil, w.table, c.Before, tg.key)...).Scan(&found)
	if err != nil {
		return err
	}
	if found == 0 {
		return w.merge(ctx, c.After)
	}
	if err := w.exec(ctx, "DELETE FROM "+tg.name+" WHERE "+tg.where(w.table), tg.bind(nil, w.table, c.After, tg.key)); err != nil {
		return err
	}
	_, err = w.update(ctx, c.Before, c.After, tg.present(c.After))
	return err
}

// remove deletes or marks the row that has the key of old; without a key, one row that equals old.
func (w *writer) remove(ctx context.Context, old []connectors.Value) error {
	tg := w.target
	if w.sink.config.Write == Append {
		if old == nil {
			return errNoOldRow
		}
		columns := tg.present(old)
		query := strings.TrimSuffix(tg.insert(w.table, columns, 1), "0)") + "1)"
		return w.exec(ctx, query, tg.bind(nil, w.table, old, columns))
	}
	if len(tg.key) > 0 {
		if !tg.hasKey(old) {
			return errNoKey
		}
		return w.exec(ctx, tg.gone()+" WHERE "+tg.where(w.table), tg.bind(nil, w.table, old, tg.key))
	}
	condition, args, err := w.equals(old)
	if err != nil {
		return err
	}
	return w.exec(ctx, tg.gone()+" WHERE _rowid_ = "+condition, args)
}

// replace updates one row that equals the old one.
func (w *writer) replace(ctx context.Context, c *connectors.Change) error {
	tg := w.target
	condition, old, err := w.equals(c.Before)
	if err != nil {
		return err
	}
	columns := tg.present(c.After)
	args := append(tg.bind(nil, w.table, c.After, columns), old...)
	return w.exec(ctx, tg.set(c.Table, columns)+" WHERE _rowid_ = "+condition, args)
}

// equals returns the expression for the rowid of one row that holds the values of old.
func (w *writer) equals(old []connectors.Value) (string, []any, error) {
	if old == nil {
		return "", nil, errNoOldRow
	}
	columns := w.target.present(old)
	if len(columns) == 0 {
		return "", nil, errNoOldRow
	}
	query := "(SELECT _rowid_ FROM " + w.target.name + " WHERE "
	for i, c := range columns {
		if i > 0 {
			query += " AND "
		}
		query += quote(w.table.Columns[c].Name) + " IS ?"
	}
	if w.target.soft {
		query += " AND " + softColumn + " = 0"
	}
	return query + " LIMIT 1)", w.target.bind(nil, w.table, old, columns), nil
}

// flush stores the run. When a statement is refused its rows are tried one by one.
func (w *writer) flush(ctx context.Context) error {
	for len(w.run) > 0 {
		n := maxRows
		for n > 1 && (n > len(w.run) || n*len(w.target.columns) > maxParameters) {
			n /= 2
		}
		err := w.together(ctx, w.rows[:n])
		if isRow(err) && n > 1 {
			for k := range n {
				if err := w.verdict(w.run[k], w.together(ctx, w.rows[k:k+1])); err != nil {
					return err
				}
			}
		} else if err := w.verdict(w.run[0], err); err != nil {
			return err
		}
		w.run, w.rows = w.run[n:], w.rows[n:]
	}
	w.run, w.rows = w.run[:0], w.rows[:0]
	return nil
}

func (w *writer) together(ctx context.Context, rows [][]connectors.Value) error {
	w.args = w.args[:0]
	for _, row := range rows {
		w.args = w.target.bind(w.args, w.table, row, w.target.columns)
	}
	return w.exec(ctx, w.target.whole(w.table, len(rows)), w.args)
}

// sorted returns the refused rows in the order of the batch.
func (w *writer) sorted() []connectors.RowError {
	slices.SortFunc(w.refused, func(a, b connectors.RowError) int { return a.Index - b.Index })
	return w.refused
}
