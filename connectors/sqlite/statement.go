package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

const (
	maxStatements = 256   // prepared statements that are kept
	maxParameters = 32766 // SQLite's own limit
	maxRows       = 64    // rows of one statement
)

// statements keeps prepared statements by their text.
type statements struct {
	db       *database
	prepared map[string]*sql.Stmt
}

// exec returns the number of rows that were changed.
func (s *statements) exec(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, ok := s.prepared[query]
	if !ok {
		if len(s.prepared) >= maxStatements {
			if err := s.close(); err != nil {
				return 0, err
			}
		}
		var err error
		if stmt, err = s.db.PrepareContext(ctx, query); err != nil {
			return 0, fmt.Errorf("prepare statement: %w", err)
		}
		if s.prepared == nil {
			s.prepared = make(map[string]*sql.Stmt)
		}
		s.prepared[query] = stmt
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.prepared {
		errs = append(errs, stmt.Close())
	}
	s.prepared = nil
	return errors.Join(errs...)
}

// where returns the condition that finds a row by its key.
func (t *target) where(table *connectors.Table) string {
	parts := make([]string, len(t.key))
	for i, k := range t.key {
		parts[i] = quote(table.Columns[k].Name) + " = ?"
	}
	return strings.Join(parts, " AND ")
}

// insert returns the statement that stores n rows of the given columns; by key, a row that is there takes the values.
func (t *target) insert(table *connectors.Table, columns []int, n int) string {
	var names, sets []string
	for _, c := range columns {
		name := quote(table.Columns[c].Name)
		names = append(names, name)
		if !slices.Contains(t.key, c) {
			sets = append(sets, name+" = excluded."+name)
		}
	}
	var b strings.Builder
	b.WriteString("INSERT OR ABORT INTO " + t.name)
	if len(columns) == 0 {
		b.WriteString(" DEFAULT VALUES")
		return b.String()
	}
	one := marks(len(columns))
	if t.soft {
		names, sets = append(names, softColumn), append(sets, softColumn+" = 0")
		one = strings.TrimSuffix(one, ")") + ", 0)"
	}
	b.WriteString(" (" + strings.Join(names, ", ") + ") VALUES " + one + strings.Repeat(", "+one, n-1))
	if len(t.key) == 0 {
		return b.String()
	}
	var key []string
	for _, k := range t.key {
		key = append(key, table.Columns[k].Name)
	}
	b.WriteString(" ON CONFLICT (" + quoteAll(key) + ") DO ")
	if len(sets) == 0 {
		b.WriteString("NOTHING")
	} else {
		b.WriteString("UPDATE SET " + strings.Join(sets, ", "))
	}
	return b.String()
}

// set returns an update of columns without its condition. A row that comes again is not deleted.
func (t *target) set(table *connectors.Table, columns []int) string {
	parts := make([]string, len(columns), len(columns)+1)
	for i, c := range columns {
		parts[i] = quote(table.Columns[c].Name) + " = ?"
	}
	if t.soft {
		parts = append(parts, softColumn+" = 0")
	}
	return "UPDATE OR ABORT " + t.name + " SET " + strings.Join(parts, ", ")
}

// gone returns what a delete does, without its condition.
func (t *target) gone() string {
	if t.soft {
		return "UPDATE OR ABORT " + t.name + " SET " + softColumn + " = 1"
	}
	return "DELETE FROM " + t.name
}

// whole returns the statement for n rows that carry every column.
func (t *target) whole(table *connectors.Table, n int) string {
	query, ok := t.multi[n]
	if !ok {
		query = t.insert(table, t.columns, n)
		t.multi[n] = query
	}
	return query
}

// present returns the columns that a row carries.
func (t *target) present(row []connectors.Value) []int {
	out := make([]int, 0, len(t.columns))
	for _, c := range t.columns {
		if !row[c].IsAbsent() {
			out = append(out, c)
		}
	}
	return out
}

// isWhole reports that a row carries every column.
func (t *target) isWhole(row []connectors.Value) bool {
	for _, c := range t.columns {
		if row[c].IsAbsent() {
			return false
		}
	}
	return true
}

// bind appends the values of the columns as the driver takes them.
func (t *target) bind(args []any, table *connectors.Table, row []connectors.Value, columns []int) []any {
	for _, c := range columns {
		args = append(args, bindValue(table.Dialect, row[c], t.numeric[c]))
	}
	return args
}

// bindValue returns what SQLite stores for a value: integers and floats as numbers, bytes as a blob, everything else as
// its text. An unsigned integer above the signed range and a NaN, which SQLite has no number for, are text as well. A
// timestamp that comes from SQLite goes back in its own form, with a blank.
func bindValue(from string, v connectors.Value, numeric bool) any {
	switch v.Kind() {
	case connectors.Absent, connectors.Null:
		return nil
	case connectors.Bool:
		if v.Bool() {
			return int64(1)
		}
		return int64(0)
	case connectors.Int:
		return v.Int()
	case connectors.Uint:
		if v.Uint() <= math.MaxInt64 {
			return int64(v.Uint())
		}
		return strconv.FormatUint(v.Uint(), 10)
	case connectors.Float:
		if f, err := strconv.ParseFloat(string(v.Data()), 64); err == nil && !math.IsNaN(f) {
			return f
		}
	case connectors.Bytes:
		if v.Data() == nil {
			return []byte{}
		}
		return v.Data()
	case connectors.Decimal:
		if numeric && from == dialect {
			return bindNumber(string(v.Data()))
		}
	case connectors.Timestamp:
		if text := string(v.Data()); from == dialect && len(text) > 10 && text[10] == 'T' {
			return text[:10] + " " + text[11:]
		}
	}
	return string(v.Data())
}

// bindNumber returns the number that SQLite had.
func bindNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) {
		return f
	}
	return text
}
