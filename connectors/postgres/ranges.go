package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// rangePages is how many pages one COPY reads: 4 MiB of a table's file with the usual page size.
const rangePages = 512

// file is one file of a table: the table itself, or one partition of it.
type file struct {
	oid   uint32
	ident string
	node  uint32
	pages uint32
}

// task is one COPY of the snapshot.
type task struct {
	table    *snapshotTable
	file     *file
	from, to uint32 // pages; to is not part of it
	whole    bool   // without a condition on pages
	newer    bool   // only what the first snapshot did not see; the range counts as finished before and after
	mark     *fileMark
}

// snapshotTable is a table on its way through the snapshot.
type snapshotTable struct {
	relation *relation
	shape    *shape
	left     int // tasks that are not handed over yet
	rows     int64
	anew     bool // what was read of it before does not count
}

// filesOf lists the files of a relation in the transaction of a worker, so that all that its snapshot can see lies in
// the pages that are there now.
func filesOf(ctx context.Context, conn *pgx.Conn, r *relation) ([]*file, error) {
	query := `SELECT c.oid, n.nspname, c.relname, coalesce(pg_relation_filenode(c.oid), 0), coalesce(pg_relation_size(c.oid) / current_setting('block_size')::int, 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::oid`
	if r.partitioned {
		query = `SELECT c.oid, n.nspname, c.relname, coalesce(pg_relation_filenode(c.oid), 0), coalesce(pg_relation_size(c.oid) / current_setting('block_size')::int, 0)
FROM pg_partition_tree($1::oid::regclass) p JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.isleaf AND c.relkind = 'r' ORDER BY c.oid`
	}
	rows, err := conn.Query(ctx, query, int64(r.oid))
	if err != nil {
		return nil, fmt.Errorf("list files of table %s: %w", r.full(), err)
	}
	files, err := collect(rows, func(rows pgx.Rows) (*file, error) {
		var f file
		var schema, name string
		var pages int64
		err := rows.Scan(&f.oid, &schema, &name, &f.node, &pages)
		f.ident, f.pages = ident(schema, name), uint32(pages)
		return &f, err
	})
	if err != nil {
		return nil, fmt.Errorf("list files of table %s: %w", r.full(), err)
	}
	return files, nil
}

// newerPages is how many pages of finished ranges one COPY looks through for newer rows, of which few are expected.
const newerPages = 64 * rangePages

// plan cuts a file into tasks: those for what is not finished, and those that look through the finished ranges of an
// earlier snapshot, if it read the same file. The second kind comes last, because it starts anew after a crash.
func plan(t *snapshotTable, f *file, done *fileMark, ranges bool) (unfinished, newer []task) {
	if done.Node != f.node {
		done = &fileMark{}
	}
	if !ranges {
		if len(done.Ranges) > 0 {
			return nil, []task{{table: t, file: f, to: f.pages, whole: true, newer: true, mark: done}}
		}
		return []task{{table: t, file: f, to: f.pages, whole: true}}, nil
	}
	next := uint32(0)
	for _, r := range done.Ranges {
		unfinished = append(unfinished, cut(t, f, next, r[0], rangePages)...)
		for _, k := range cut(t, f, r[0], min(r[1], f.pages), newerPages) {
			k.newer, k.mark = true, done
			newer = append(newer, k)
		}
		next = r[1]
	}
	return append(unfinished, cut(t, f, next, f.pages, rangePages)...), newer
}

func cut(t *snapshotTable, f *file, from, to, pages uint32) (tasks []task) {
	for from < to {
		n := min(pages, to-from)
		tasks = append(tasks, task{table: t, file: f, from: from, to: from + n})
		from += n
	}
	return tasks
}

// statement is the COPY of a task. xmin is the oldest transaction that the first snapshot did not see as ended.
func (k *task) statement(xmin uint64) string {
	var sql []byte
	sql = append(sql, "COPY (SELECT "...)
	for i, a := range k.table.shape.wire {
		if i > 0 {
			sql = append(sql, ", "...)
		}
		sql = append(sql, ident(a.name)...)
	}
	sql = append(sql, " FROM ONLY "...)
	sql = append(sql, k.file.ident...)
	word := " WHERE "
	and := func(condition string) {
		sql = append(append(sql, word...), condition...)
		word = " AND "
	}
	if !k.whole {
		and(fmt.Sprintf("ctid >= '(%d,0)' AND ctid < '(%d,0)'", k.from, k.to))
	}
	if k.newer {
		and(k.mark.newer(xmin))
	}
	if where := k.table.relation.spec.Where; where != "" {
		and("(" + where + ")")
	}
	return string(append(sql, ") TO STDOUT"...))
}
