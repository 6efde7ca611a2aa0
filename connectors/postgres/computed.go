package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// Before PostgreSQL 18, the stream leaves generated columns out. What they hold follows from the row's other columns by an
// expression that must be immutable, so the server is asked to compute it from these, for all rows of a batch at once.

// inputs are what the expressions of a version of a table need.
type inputs struct {
	columns  []int // on the wire
	outputs  []output
	sql      string // up to the rows
	tail     string // after them
	reported bool   // that the server could not do it
}

// output is a generated column.
type output struct {
	wire  int
	needs []int // places in inputs.columns
}

// input is a value as it came on the wire: t text, n null, u unchanged.
type input struct {
	kind byte
	text []byte
}

// uncomputed is a row image that lacks its generated columns.
type uncomputed struct {
	shape  *shape
	row    []connectors.Value
	inputs []input
}

// computable returns the generated columns that can be computed from those on the wire. The key's are not: an old key
// comes without its inputs.
func (r *relation) computable(wire []attribute) []attribute {
	var out []attribute
	for _, a := range r.columns {
		has := func(number int16) bool {
			return slices.ContainsFunc(wire, func(w attribute) bool { return w.number == number })
		}
		if a.generated && !has(a.number) && !slices.Contains(r.primary, a.number) && !slices.Contains(r.index, a.number) &&
			!slices.ContainsFunc(a.needs, func(n int16) bool { return !has(n) }) {
			out = append(out, a)
		}
	}
	return out
}

// setInputs prepares the computing of the columns that stand on the wire behind those of the stream. The expressions use the
// names that the catalog has now.
func (s *shape) setInputs(r *relation) {
	if s.streamed == len(s.wire) {
		return
	}
	in := &inputs{}
	list, from := "", ""
	for wire := s.streamed; wire < len(s.wire); wire++ {
		if s.index[wire] < 0 {
			continue
		}
		out := output{wire: wire}
		for _, number := range s.wire[wire].needs {
			column := slices.IndexFunc(s.wire, func(a attribute) bool { return a.number == number })
			place := slices.Index(in.columns, column)
			if place < 0 {
				place = len(in.columns)
				in.columns = append(in.columns, column)
				name := s.wire[column].name
				if i := slices.IndexFunc(r.columns, func(a attribute) bool { return a.number == number }); i >= 0 {
					name = r.columns[i].name
				}
				from += fmt.Sprintf(", c%d::%s AS %s", place, s.wire[column].text, ident(name))
			}
			out.needs = append(out.needs, place)
		}
		in.outputs = append(in.outputs, out)
		list += ", (" + s.wire[wire].expression + ")"
	}
	if len(in.outputs) == 0 {
		return
	}
	names := ""
	for place := range in.columns {
		names += fmt.Sprintf(", c%d", place)
	}
	in.sql = "WITH v(n" + names + ") AS MATERIALIZED (VALUES "
	in.tail = ") SELECT " + list[2:] + " FROM (SELECT n" + from + " FROM v) t ORDER BY n"
	s.inputs = in
}

// note keeps the inputs of a row image, whose columns are c.
func (r *rows) note(s *shape, row []connectors.Value, columns []input) {
	u := uncomputed{shape: s, row: row}
	for _, column := range s.inputs.columns {
		v := columns[column]
		start := len(r.raw)
		r.raw = append(r.raw, v.text...)
		v.text = r.raw[start:len(r.raw):len(r.raw)]
		u.inputs = append(u.inputs, v)
	}
	r.uncomputed = append(r.uncomputed, u)
}

// fillInputs gives the new row the inputs that did not change, where the old row has them.
func (r *rows) fillInputs() {
	n := len(r.uncomputed)
	before, after := r.uncomputed[n-2], r.uncomputed[n-1]
	for i := range after.inputs {
		if after.inputs[i].kind == 'u' {
			after.inputs[i] = before.inputs[i]
		}
	}
}

// computeRows is how many rows are computed in one query, computeBytes how many bytes of inputs.
const (
	computeRows  = 1000
	computeBytes = 4 << 20
)

// compute fills in the generated columns of a batch.
func (s *stream) compute(ctx context.Context) error {
	r := s.rows
	ctx, cancel := unhurried(ctx)
	defer cancel()
	for len(r.uncomputed) > 0 {
		n, bytes := 0, 0
		for n < len(r.uncomputed) && n < computeRows && bytes < computeBytes && r.uncomputed[n].shape == r.uncomputed[0].shape {
			for _, v := range r.uncomputed[n].inputs {
				bytes += len(v.text)
			}
			n++
		}
		if err := s.computeOf(ctx, r, r.uncomputed[:n]); err != nil {
			return err
		}
		r.uncomputed = r.uncomputed[n:]
	}
	r.uncomputed, r.raw = nil, r.raw[:0]
	return nil
}

// computeOf fills in the columns of rows of one version. Where the server cannot compute them any more, because the stream
// is behind an ALTER, they stay absent, and it is said.
func (s *stream) computeOf(ctx context.Context, r *rows, list []uncomputed) error {
	shape := list[0].shape
	sql := []byte(shape.inputs.sql)
	for n, u := range list {
		if n > 0 {
			sql = append(sql, ", "...)
		}
		sql = fmt.Appendf(sql, "(%d", n)
		for _, v := range u.inputs {
			if v.kind != 't' {
				sql = append(sql, ", NULL::text"...)
				continue
			}
			sql = append(sql, ", '"...)
			sql = append(append(sql, quoteLiteral(string(v.text))...), "'::text"...)
		}
		sql = append(sql, ')')
	}
	sql = append(sql, shape.inputs.tail...)
	n := 0
	err := s.catalog.do(ctx, func(conn *pgx.Conn) error {
		return eachRow(conn.PgConn().Exec(ctx, string(sql)), func(values [][]byte) error {
			u := list[n]
			n++
			for i, out := range shape.inputs.outputs {
				if slices.ContainsFunc(out.needs, func(place int) bool { return u.inputs[place].kind == 'u' }) {
					continue // as unchanged as what it is made of
				}
				v := connectors.NullValue()
				if values[i] != nil {
					v = shape.decoders[out.wire].value(r, values[i])
				}
				u.row[shape.index[out.wire]] = v
			}
			return nil
		})
	})
	var pg *pgconn.PgError
	if err != nil && ctx.Err() == nil && errors.As(err, &pg) {
		if !shape.inputs.reported {
			shape.inputs.reported = true
			s.warn(shape.table, "its generated columns cannot be computed from what the stream has (SQLSTATE "+pg.Code+"), and are left out of some rows; read it anew with resync")
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("compute generated columns of table %s: %w", shape.table.FullName(), err)
	}
	return nil
}
