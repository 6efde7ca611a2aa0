package mysql

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// How a table is cut for its snapshot.
type cutting uint8

const (
	cutNot     cutting = iota // no key that we can compare: one query, durable as a whole
	cutInteger                // one integer key: ranges, read by several workers
	cutOrdered                // any other key: in its order, each piece behind the last one's key
)

// task is one query of the snapshot, or with an ordered key the whole chain of them.
type task struct {
	table    *snapshotTable
	from, to uint64 // of an integer key, moved so that the smallest is 0; both are part of it
}

// snapshotTable is a table on its way through the snapshot.
type snapshotTable struct {
	name     tableName
	shape    *shape
	estimate int64
	cut      cutting
	where    string // what is read of it; empty: all
	left     int    // tasks that are not handed over yet
	rows     int64
	brought  map[uint64]struct{} // rows that were handed over already, by their hashes; nil: none
}

// cutOf decides how a table can be cut.
func cutOf(s *shape) cutting {
	if len(s.def.Key) == 0 {
		return cutNot
	}
	for _, name := range s.def.Key {
		i := s.def.column(name)
		if i < 0 {
			return cutNot
		}
		switch d := s.decoders[i]; d.form {
		case formInt, formUint:
			if len(s.def.Key) == 1 {
				return cutInteger
			}
		case formDecimal, formDate, formDateTime, formTimestamp, formUUID, formInet4, formInet6:
		case formText:
			if d.typ.base != "char" && d.typ.base != "varchar" {
				return cutNot
			}
		case formBytes:
			if d.typ.base != "binary" && d.typ.base != "varbinary" {
				return cutNot
			}
		default:
			return cutNot
		}
	}
	return cutOrdered
}

// signBias moves the smallest signed number to 0.
const signBias = 1 << 63

// plan returns the tasks for what is not finished of a table. It asks the worker's own view for the range of the keys.
func plan(ctx context.Context, r *reader, t *snapshotTable, done *tableMark, rows int) ([]task, error) {
	if done.Done {
		return nil, nil
	}
	if t.cut != cutInteger {
		return []task{{table: t}}, nil
	}
	key := ident(t.shape.def.Key[0])
	ends, err := r.one(ctx, fmt.Sprintf("SELECT MIN(%s), MAX(%[1]s) FROM %s", key, t.name.ident()))
	if err != nil {
		return nil, fmt.Errorf("read keys of table %s: %w", t.name.full(), settle(plain(err)))
	}
	if len(ends) != 2 || ends[0] == "" {
		return nil, nil
	}
	first, err1 := t.biased(ends[0])
	last, err2 := t.biased(ends[1])
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("read keys of table %s: not numbers", t.name.full())
	}
	pieces := max(uint64(t.estimate)/uint64(rows), 1)
	if t.estimate < int64(last-first) && last-first < uint64(rows) {
		pieces = 1
	}
	step := (last - first) / pieces
	if step < 1<<64-1 {
		step++
	}
	var tasks []task
	next := first
	for _, d := range done.Ranges {
		if d[0] > next {
			tasks = append(tasks, cutRange(t, next, min(d[0]-1, last), step)...)
		}
		if d[1]+1 == 0 {
			return tasks, nil
		}
		next = max(next, d[1]+1)
	}
	if next <= last {
		tasks = append(tasks, cutRange(t, next, last, step)...)
	}
	return tasks, nil
}

func cutRange(t *snapshotTable, from, to, step uint64) (tasks []task) {
	for {
		end := to
		if to-from >= step {
			end = from + step - 1
		}
		tasks = append(tasks, task{table: t, from: from, to: end})
		if end == to {
			return tasks
		}
		from = end + 1
	}
}

func (t *snapshotTable) isUnsigned() bool {
	return t.shape.decoders[t.shape.def.column(t.shape.def.Key[0])].form == formUint
}

func (t *snapshotTable) biased(text string) (uint64, error) {
	if t.isUnsigned() {
		return strconv.ParseUint(text, 10, 64)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return uint64(n) ^ signBias, err
}

func (t *snapshotTable) unbiased(n uint64) string {
	if t.isUnsigned() {
		return strconv.FormatUint(n, 10)
	}
	return strconv.FormatInt(int64(n^signBias), 10)
}

// statement is the query of a task. after are the literals of the last key, of limit rows are read.
func (k *task) statement(after []string, limit int) string {
	t := k.table
	var sql strings.Builder
	sql.WriteString("SELECT " + t.columnList() + " FROM " + t.name.ident())
	switch t.cut {
	case cutNot:
		if t.where != "" {
			sql.WriteString(" WHERE " + t.where)
		}
	case cutInteger:
		key := ident(t.shape.def.Key[0])
		fmt.Fprintf(&sql, " WHERE %s >= %s AND %s <= %s", key, t.unbiased(k.from), key, t.unbiased(k.to))
	case cutOrdered:
		var names []string
		for _, name := range t.shape.def.Key {
			names = append(names, ident(name))
		}
		if len(after) > 0 {
			sql.WriteString(" WHERE " + behind(names, after))
		}
		fmt.Fprintf(&sql, " ORDER BY %s LIMIT %d", strings.Join(names, ", "), limit)
	}
	return sql.String()
}

// columnList names all columns. FLOAT is read as a double: the server prints it with six digits.
func (t *snapshotTable) columnList() string {
	var list []string
	for i, c := range t.shape.def.Columns {
		name := ident(c.Name)
		if t.shape.decoders[i].form == formFloat {
			name += " * 1e0"
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

// behind is (a, b) > (x, y) written out, because MariaDB reads no index range for the short form.
func behind(names, values []string) string {
	var parts []string
	for i := range names {
		var same []string
		for j := range i {
			same = append(same, names[j]+" = "+values[j])
		}
		parts = append(parts, "("+strings.Join(append(same, names[i]+" > "+values[i]), " AND ")+")")
	}
	return fmt.Sprintf("%s >= %s AND (%s)", names[0], values[0], strings.Join(parts, " OR "))
}

// literals returns the key of a row as SQL.
func (t *snapshotTable) literals(row [][]byte) []string {
	var out []string
	for _, name := range t.shape.def.Key {
		i := t.shape.def.column(name)
		out = append(out, literal(t.shape.decoders[i], row[i]))
	}
	return out
}

// literal is a value of a query as SQL.
func literal(d *decoder, v []byte) string {
	switch d.form {
	case formInt, formUint, formDecimal:
		return string(v)
	case formText:
		return "_utf8mb4 x'" + hex.EncodeToString(v) + "'"
	case formBytes:
		return "x'" + hex.EncodeToString(v) + "'"
	}
	return "'" + strings.ReplaceAll(string(v), "'", "''") + "'"
}

// goesOn reports whether the marks of an earlier snapshot fit the table as it is now.
func (t *snapshotTable) goesOn(mark *tableMark) bool {
	return (len(mark.After) == 0 || t.cut == cutOrdered && len(mark.After) == len(t.shape.def.Key)) &&
		(len(mark.Ranges) == 0 || t.cut == cutInteger)
}

// skips reports whether the stream has to leave out what is older than the moment at which the table was read.
func (t *snapshotTable) skips(mark *snapshotMark) bool {
	return t.cut == cutNot && (len(t.shape.table.Key) == 0 || !slices.Contains(mark.Again, t.name))
}
