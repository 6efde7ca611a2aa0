package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// extracts looks at what mode timestamp needs of the server.
func (k *checker) extracts(ctx context.Context, conn *pgx.Conn) error {
	r := &extractRun{conn: conn}
	if err := r.look(ctx); err != nil {
		return err
	}
	k.hidden = r.lookout.hidden
	if r.lookout.standby {
		k.warn("server", "is a standby: a run looks at whole tables, because the transactions of the primary are not seen here", "read the primary, or leave scan at auto")
	}
	return nil
}

// queries looks at the queries that stand for tables, and returns how many there are.
func (k *checker) queries(ctx context.Context) (int, error) {
	list, refused, err := k.catalog.queries(ctx)
	if err != nil {
		return 0, err
	}
	for _, f := range refused {
		k.fatal("table "+f.Subject, f.Problem, f.Remedy)
	}
	for _, r := range list {
		subject := "table " + r.full()
		problem, remedy := r.problem(false)
		var t *extractTable
		if problem == "" {
			shape, err := k.catalog.shapeOf(ctx, r)
			if err != nil {
				return 0, err
			}
			t, problem, remedy = newQueryTable(r, shape)
		}
		if problem != "" {
			k.fatal(subject, problem, remedy)
			continue
		}
		if err := k.where(ctx, r); err != nil {
			return 0, err
		}
		k.info(subject, fmt.Sprintf("rows of its query are read by %s, and those where it is NULL are not read", t.cursor.name), "")
	}
	return len(list) + len(refused), nil
}

// where tries the condition of a table, without reading a row.
func (k *checker) where(ctx context.Context, r *relation) error {
	if r.spec.Where == "" {
		return nil
	}
	from := r.own()
	if r.spec.Query != "" {
		from = r.spec.Subquery()
	}
	err := k.catalog.do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT FROM "+from+" WHERE ("+r.spec.Where+") LIMIT 0")
		return err
	})
	if !refuses(err) {
		return err
	}
	problem := err.Error()
	var pg *pgconn.PgError
	if errors.As(err, &pg) { // two of its messages quote what may be a value
		before, _, near := strings.Cut(pg.Message, " at or near ")
		switch {
		case strings.HasPrefix(pg.Code, "22"):
			problem = "a value in it is not of the type that it is compared with (SQLSTATE " + pg.Code + ")"
		case near:
			problem = before + " (SQLSTATE " + pg.Code + ")"
		}
	}
	k.findings = append(k.findings, connectors.RefusedWhere(k.config.Tables, r.spec, "table "+r.full(), problem))
	return nil
}

// cursor looks at the cursor of a table.
func (k *checker) cursor(ctx context.Context, r *relation) error {
	subject := "table " + r.full()
	shape, err := k.catalog.shapeOf(ctx, r)
	if err != nil {
		return err
	}
	t, problem, remedy := newExtractTable(r, shape, k.config.NullCursor == nullFirst)
	if problem != "" {
		k.fatal(subject, problem, remedy)
		return nil
	}
	s := &extract{catalog: k.catalog, tables: []*extractTable{t}}
	if err := s.findIndexes(ctx); err != nil {
		return err
	}
	name := t.cursor.name
	if t.nullable && !t.withNulls {
		k.warn(subject, fmt.Sprintf("the cursor %s may be NULL: rows without one are not read", name),
			fmt.Sprintf("%s, or null_cursor: first", r.alter("ALTER "+ident(name)+" SET NOT NULL")))
	}
	if !t.indexed {
		k.warn(subject, fmt.Sprintf("no index begins with the cursor %s: each run looks at the whole table", name),
			fmt.Sprintf("CREATE INDEX ON %s (%s)", r.ident(), ident(name)))
	} else if k.hidden && k.config.Scan != scanAlways {
		k.warn(subject, fmt.Sprintf("our user does not see when the transactions of others began: once the table is too large to be looked at whole, rows of a transaction that began more than %s before it first wrote can be missed", k.config.Settle),
			"GRANT pg_read_all_stats TO our user, or scan: always")
	}
	if t.unique {
		k.warn(subject, fmt.Sprintf("the cursor %s is the row's own key: where a run looks at a part of the table only, changes of older rows are not seen", name),
			"name a column that grows with every change: cursor: updated_at")
	}
	if k.config.Deletes != deletesDetect {
		k.info(subject, "deletes are not seen", "deletes: detect, or mark deleted rows with a column and let it move the cursor")
	}
	return nil
}
