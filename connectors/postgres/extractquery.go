package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// A query of the user stands for a table. Its rows have no transaction of their own, so late commits are found by an upper
// bound: a run hands over no row whose cursor is above the highest one of an earlier run at which no transaction was open
// that is still open now. A time of the server's clock is also below the bound when it is before the start of the oldest open
// transaction. Rows above the bound wait for the next run. The place of the last row is
// kept from run to run.

// queryOID is the number of a query in the mark: outside of what the server has given out to tables.
func queryOID(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash never fails
	return h.Sum32() | 1<<31
}

// queries describes the queries of the configuration as relations. One that the server refuses is a finding: it stays
// refused until a person corrects it.
func (c *catalog) queries(ctx context.Context) (list []*relation, refused []connectors.Finding, err error) {
	for i := range c.config.Tables {
		spec := &c.config.Tables[i]
		if spec.Query == "" {
			continue
		}
		r := &relation{oid: queryOID(spec.Name), spec: spec, readable: true, identity: 'n'}
		r.schema, r.name, _ = strings.Cut(spec.Name, ".")
		err := c.do(ctx, func(conn *pgx.Conn) (err error) {
			r.columns, err = describeQuery(ctx, conn, spec)
			return err
		})
		switch {
		case refuses(err):
			refused = append(refused, connectors.Finding{Severity: connectors.Fatal, Subject: r.full(),
				Problem: "has a query that cannot be read: " + err.Error(), Remedy: "correct query, or GRANT SELECT on its tables TO our user"})
		case err != nil:
			return nil, nil, fmt.Errorf("describe query %s: %w", spec.Name, err)
		default:
			list = append(list, r)
		}
	}
	return list, refused, nil
}

// refuses reports that the server has read a statement and cannot carry it out, so that no second try helps: syntax, names and
// rights (42, 3F), values (22), cardinality (21), what it cannot do (0A), and damage (XX).
func refuses(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && len(pg.Code) == 5 && slices.Contains([]string{"42", "3F", "22", "21", "0A", "XX"}, pg.Code[:2])
}

// describeQuery returns the columns of a query.
func describeQuery(ctx context.Context, conn *pgx.Conn, spec *connectors.TableSpec) ([]attribute, error) {
	rows, err := conn.Query(ctx, "SELECT * FROM "+spec.Subquery()+" LIMIT 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []attribute
	for i, f := range rows.FieldDescriptions() {
		list = append(list, attribute{number: int16(i + 1), name: f.Name, typ: typeRef{f.DataTypeOID, f.TypeModifier}})
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it has no columns")
	}
	return list, nil
}

// newQueryTable finds cursor and key of a query.
func newQueryTable(r *relation, s *shape) (t *extractTable, problem, remedy string) {
	t = &extractTable{relation: r, shape: s}
	find := func(name string) *attribute {
		if i := slices.IndexFunc(s.wire, func(a attribute) bool { return a.name == name }); i >= 0 {
			return &s.wire[i]
		}
		return nil
	}
	cursor := find(r.spec.Cursor)
	if cursor == nil {
		return nil, fmt.Sprintf("has no column %q, which cursor names", r.spec.Cursor), "correct cursor or query in the configuration"
	}
	t.cursor = *cursor
	for _, name := range r.spec.Key {
		a := find(name)
		if a == nil {
			return nil, fmt.Sprintf("has no column %q, which key names", name), "correct key or query in the configuration"
		}
		if name != r.spec.Cursor {
			t.tie, t.ties = append(t.tie, ident(name)), append(t.ties, a.text)
		}
	}
	t.unique = len(t.tie) == 0
	return t, "", ""
}

// from is what stands after FROM.
func (t *extractTable) from() string {
	if t.relation.spec.Query != "" {
		return t.relation.spec.Subquery()
	}
	return t.relation.own()
}

// below is the column of a query's rows that says whether they are below the bound.
func (t *extractTable) below() string {
	if len(t.bounds) == 0 {
		return "0"
	}
	return "(" + ident(t.cursor.name) + " <= greatest(" + strings.Join(t.bounds, ", ") + "))::int"
}

// bound sets how far a query may be read now: up to the cursor that was highest when all had begun that is open.
func (r *extractRun) settleBound(t *extractTable, settle time.Duration) {
	m := t.mark
	stamped := t.cursor.typ.oid == 1184 || t.cursor.typ.oid == 1114 || t.cursor.typ.oid == 1082
	if !stamped { // numbers have no clock that could be behind
		settle = 0
	}
	if r.lookout.hidden {
		settle = max(settle, defaultSettle)
	}
	oldest := r.lookout.since.Add(-settle)
	since := oldest.UnixMicro()
	for len(m.Floors) > 0 && m.Floors[0].Clock <= since && m.Floors[0].XMax <= r.seen.xmin {
		m.Floor = &m.Floors[0].Cursor
		m.Floors = slices.Clone(m.Floors[1:])
	}
	t.bounds = nil
	if m.Floor != nil {
		t.bounds = append(t.bounds, "'"+quoteLiteral(*m.Floor)+"'::"+t.cursor.text)
	}
	literal := "'" + oldest.UTC().Format("2006-01-02 15:04:05.000000") + "+00'::timestamptz"
	const earliest = " AT TIME ZONE 'UTC' - interval '12 hours')"
	switch t.cursor.typ.oid {
	case 1184:
		t.bounds = append(t.bounds, literal)
	case 1114:
		t.bounds = append(t.bounds, "("+literal+earliest)
	case 1082:
		t.bounds = append(t.bounds, "("+literal+earliest+"::date - 1")
	}
}

// raiseBound notes the highest cursor that the run saw, or the clock where that is in the future.
func (r *extractRun) raiseBound(ctx context.Context, t *extractTable) error {
	m := t.mark
	m.Clock = r.lookout.clock.UnixMicro()
	if len(r.highest) == 0 {
		return nil
	}
	highest := "'" + quoteLiteral(string(r.highest)) + "'::" + t.cursor.text
	switch t.cursor.typ.oid {
	case 1184:
		highest = "least(" + highest + ", now())"
	case 1114:
		highest = "least(" + highest + ", now() AT TIME ZONE 'UTC' + interval '14 hours')"
	case 1082:
		highest = "least(" + highest + ", (now() AT TIME ZONE 'UTC' + interval '14 hours')::date)"
	}
	var cursor string
	if err := r.conn.QueryRow(ctx, "SELECT ("+highest+")::text").Scan(&cursor); err != nil {
		return fmt.Errorf("note the highest cursor of query %s: %w", t.relation.full(), err)
	}
	m.Floors = thin(append(m.Floors, floor{r.taken.UnixMicro(), r.seen.xmax, cursor}))
	return nil
}

// sameQuery reports whether the columns are those that we have.
func (r *extractRun) sameQuery(ctx context.Context, t *extractTable) (bool, error) {
	columns, err := describeQuery(ctx, r.conn, t.relation.spec)
	return slices.EqualFunc(columns, t.relation.columns, func(a, b attribute) bool { return a.same(&b) }), err
}

// validateQuery checks an entry that has a query.
func validateQuery(t *connectors.TableSpec) error {
	switch {
	case strings.ContainsAny(t.Name, "*?"):
		return fmt.Errorf("tables: query of %q needs a name without wildcards, which its records get", t.Name)
	case t.Cursor == "" || len(t.Key) == 0:
		return fmt.Errorf("tables: query of %q needs cursor and key, which name columns of its result", t.Name)
	}
	return nil
}
