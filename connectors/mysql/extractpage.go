package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// page reads the next rows of a table. It reports that there are no more in this run.
func (s *extract) page(ctx context.Context, t *extractTable) (done bool, err error) {
	statement, nulls := t.next(s.config.NullCursor == nullFirst, s.env.Limits.BatchRows)
	if statement == "" {
		return true, s.complete(ctx, t)
	}
	n, at, before := 0, time.Now().UTC(), *t.mark
	s.keys = s.keys[:0]
	place := t.place()
	op := connectors.Update
	switch {
	case t.mark.First:
		op = connectors.Snapshot
	case t.numbers && len(t.shape.def.Key) == 1 && strings.EqualFold(t.shape.def.Key[0], t.spec.Cursor):
		op = connectors.Insert
	}
	err = s.reader.each(ctx, statement, func(row [][]byte) error {
		n++
		start := len(s.rows.arena)
		image := s.rows.image(len(t.shape.table.Columns))
		for i, text := range row {
			switch to := t.shape.index[i]; {
			case to < 0:
			case text == nil:
				image[to] = connectors.NullValue()
			default:
				image[to] = t.shape.decoders[i].text(s.rows, text)
			}
		}
		if size := len(s.rows.arena) - start; size > s.env.Limits.RowBytes {
			return tooLarge(t.shape.table, size, s.env.Limits.RowBytes)
		}
		if !t.wasBrought(image) {
			c := s.rows.add(op, t.shape.table, at)
			c.After, c.Origin = image, extractOrigin
		}
		if s.deletes != nil && t.keys != nil {
			if key, ok := t.keys.of(row); ok {
				s.keys = append(s.keys, key)
			}
		}
		s.last.keep(row, place)
		return nil
	})
	switch {
	case err != nil || n == 0:
	case nulls:
		t.mark.Nulls = t.literals(s.last.row)
	default:
		t.mark.After = append([]string{literal(t.shape.decoders[t.cursor], s.last.row[t.cursor])}, t.literals(s.last.row)...)
	}
	if err == nil {
		err = s.deletes.add(ctx, t.mark.Keys, s.keys)
	}
	if err != nil {
		*t.mark = before // its rows are not handed over
		return false, err
	}
	t.rows += int64(n)
	if t.mark.First {
		s.env.Report(connectors.Report{Table: t.name.full(), Phase: connectors.PhaseSnapshot, Rows: t.rows, Total: max(t.estimate, t.rows)})
	}
	if n == s.env.Limits.BatchRows {
		return false, nil
	}
	if nulls {
		t.mark.Nulled = true
		return false, nil
	}
	return true, s.complete(ctx, t)
}

// place returns the columns that say where a row stands in the order: the cursor and those of the key.
func (t *extractTable) place() []int {
	columns := []int{t.cursor}
	for _, name := range t.shape.def.Key {
		columns = append(columns, t.shape.def.column(name))
	}
	return columns
}

// lastRow is a copy of some columns of a row, which uses its memory again.
type lastRow struct{ row [][]byte }

// keep copies the columns of a row that is valid for a moment.
func (l *lastRow) keep(row [][]byte, columns []int) {
	if len(l.row) != len(row) {
		l.row = make([][]byte, len(row))
	}
	for _, i := range columns {
		l.row[i] = append(l.row[i][:0], row[i]...)
	}
}

// extractOrigin: an extract has no place in the binary log.
var extractOrigin = []byte(`"server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":null`)

// complete ends the run of a table, and counts what waits.
func (s *extract) complete(ctx context.Context, t *extractTable) error {
	if t.mark.BroughtAt != "" && t.bound != "" && t.boundAt > t.mark.BroughtAt {
		t.mark.Brought, t.mark.BroughtAt, t.brought = nil, "", nil
	}
	var waiting int64
	count := "SELECT COUNT(*) FROM (SELECT 1 FROM " + t.from() + " WHERE " + t.above() + " LIMIT 10000) AS w"
	list, err := s.reader.one(ctx, count)
	if err != nil {
		return err
	}
	if len(list) == 1 {
		fmt.Sscanf(list[0], "%d", &waiting)
	}
	t.waiting = waiting
	if t.mark.First && t.bound != "" && !(s.early() && waiting > 0) { // what waits for the second look is of the first extract too
		t.mark.First = false
		s.env.Report(connectors.Report{Table: t.name.full(), Phase: connectors.PhaseStreaming, Rows: t.rows})
	}
	s.env.Report(connectors.Report{Table: t.name.full(), Waiting: &waiting})
	if err := s.countUnseen(ctx, t); err != nil {
		return err
	}
	return s.deletes.look(ctx, s.reader, t.keys, t.mark, s.config.DeletesEvery)
}

// countUnseen reports how many rows have no cursor, so that no run sees what happens to them.
func (s *extract) countUnseen(ctx context.Context, t *extractTable) error {
	if t.shape.def.Columns[t.cursor].NotNull {
		return nil
	}
	list, err := s.reader.one(ctx, "SELECT COUNT(*) FROM "+t.from()+" WHERE "+ident(t.spec.Cursor)+" IS NULL")
	if err != nil || len(list) != 1 {
		return err
	}
	unseen, err := strconv.ParseInt(list[0], 10, 64)
	if err != nil {
		return fmt.Errorf("count rows without a cursor: %w", err)
	}
	s.env.Report(connectors.Report{Table: t.name.full(), Unseen: &unseen})
	return nil
}
