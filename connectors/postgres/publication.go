package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// A publication of ours carries a comment:
//
//	trunkline [pending] filters=HASH
//
// pending stands there from before the slot is created until the first position is durable in the log, and again when a
// position was lost. It tells a slot whose snapshot never arrived from one whose mark was deleted: the first has to start
// over, the second goes on where the slot is. The hash is of the row filters, because the server keeps its own wording.
const (
	commentOwn     = "trunkline"
	commentPending = "pending"
)

// publication is what the server has under the name of ours.
type publication struct {
	exists  bool
	all     bool // FOR ALL TABLES: not to be changed
	viaRoot bool
	comment string
	tables  []uint32
}

func (p *publication) own() bool { return strings.HasPrefix(p.comment, commentOwn) }

// splits reports that the publication brings the changes of a partitioned table under the names of its partitions, which is
// not ours to change.
func (p *publication) splits(r *relation) bool { return p.all && !p.viaRoot && r.partitioned }

// splitProblem and its remedy are said of such a table.
func splitProblem(publication string) (problem, remedy string) {
	return "is partitioned, and publication " + publication + " brings changes under the names of its partitions",
		"ALTER PUBLICATION " + ident(publication) + " SET (publish_via_partition_root = true), or let the source have a publication of its own with publication"
}

func (p *publication) pending() bool {
	return slices.Contains(strings.Fields(p.comment), commentPending)
}

// uncertain reports that the publication cannot say whether a snapshot is pending.
func (p *publication) uncertain() bool { return !p.own() }

func loadPublication(ctx context.Context, conn *pgx.Conn, name string) (*publication, error) {
	p := &publication{}
	err := conn.QueryRow(ctx, `SELECT puballtables, pubviaroot, coalesce(obj_description(oid, 'pg_publication'), ''),
  ARRAY(SELECT prrelid::int8 FROM pg_publication_rel WHERE prpubid = p.oid) FROM pg_publication p WHERE pubname = $1`, name).
		Scan(&p.all, &p.viaRoot, &p.comment, &p.tables)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read publication %q: %w", name, err)
	}
	p.exists = true
	return p, nil
}

// ensurePublication creates the publication or adds to it and takes away from it, so that it publishes exactly the
// relations, and returns those that were added to one that existed. Every relation has passed relation.problem: to publish
// a table without replica identity would make the application's own writes fail.
func ensurePublication(ctx context.Context, conn *pgx.Conn, p *publication, name string, list []*relation, version int) (added []*relation, err error) {
	var statements []string
	filters := filterHash(list)
	switch {
	case !p.exists:
		statement := "CREATE PUBLICATION " + ident(name)
		if len(list) > 0 {
			statement += " FOR TABLE " + publicationTables(list)
		}
		statements = append(statements, statement+" WITH (publish_via_partition_root = true)")
	case p.all:
		return nil, nil
	default:
		for _, r := range list {
			if !slices.Contains(p.tables, r.oid) {
				added = append(added, r)
			}
		}
		if !p.viaRoot {
			statements = append(statements, "ALTER PUBLICATION "+ident(name)+" SET (publish_via_partition_root = true)")
		}
		stale := slices.ContainsFunc(p.tables, func(oid uint32) bool {
			return !slices.ContainsFunc(list, func(r *relation) bool { return r.oid == oid })
		})
		switch {
		case p.own() && len(list) > 0 && (stale || !slices.Contains(strings.Fields(p.comment), filters)):
			statements = append(statements, "ALTER PUBLICATION "+ident(name)+" SET TABLE "+publicationTables(list))
		case len(added) > 0:
			statements = append(statements, "ALTER PUBLICATION "+ident(name)+" ADD TABLE "+publicationTables(added))
		}
	}
	for _, r := range list {
		if r.spec.Where != "" && version < 150000 {
			return nil, fmt.Errorf("table %s: where needs PostgreSQL 15 or later for changes: %w", r.full(), connectors.ErrFatal)
		}
	}
	if err := publish(ctx, conn, name, statements, list); err != nil {
		return nil, err
	}
	if p.exists && !p.own() {
		return added, nil
	}
	pending := !p.exists || p.pending()
	if comment := publicationComment(pending, filters); comment != p.comment {
		if err := setComment(ctx, conn, name, comment); err != nil {
			return nil, err
		}
		p.comment = comment
	}
	p.exists = true
	return added, nil
}

// addToPublication adds tables that are not in it.
func addToPublication(ctx context.Context, conn *pgx.Conn, p *publication, name string, list []*relation) error {
	if p.all {
		return nil
	}
	list = slices.DeleteFunc(slices.Clone(list), func(r *relation) bool { return slices.Contains(p.tables, r.oid) })
	if len(list) == 0 {
		return nil
	}
	return publish(ctx, conn, name, []string{"ALTER PUBLICATION " + ident(name) + " ADD TABLE " + publicationTables(list)}, list)
}

// strangerQuery finds a column of a row filter that the table's replica identity lacks. A filter depends on its columns.
const strangerQuery = `SELECT n.nspname || '.' || c.relname, a.attname
FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_depend d ON d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
WHERE p.pubname = $1 AND r.prqual IS NOT NULL AND a.attnum > 0 AND c.relreplident <> 'f'
  AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey)
    AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident))
LIMIT 1`

// publish runs the statements, unless they would publish a row filter that makes the server refuse the application's own
// UPDATE and DELETE.
func publish(ctx context.Context, conn *pgx.Conn, name string, statements []string, list []*relation) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return publicationFault(name, statement, err)
			}
		}
		if !slices.ContainsFunc(list, func(r *relation) bool { return r.spec.Where != "" }) {
			return nil
		}
		var table, column string
		err := tx.QueryRow(ctx, strangerQuery, name).Scan(&table, &column)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at row filters of publication %q: %w", name, err)
		}
		return fmt.Errorf("table %s: where uses %q, which is not part of the replica identity, so the server would refuse the application's UPDATE and DELETE; run ALTER TABLE %s REPLICA IDENTITY FULL, or remove where: %w",
			table, column, table, connectors.ErrFatal)
	})
}

func publicationComment(pending bool, filters string) string {
	if pending {
		return commentOwn + " " + commentPending + " " + filters
	}
	return commentOwn + " " + filters
}

// setPending changes the comment, if the publication is ours.
func setPending(ctx context.Context, conn *pgx.Conn, name string, pending bool) error {
	p, err := loadPublication(ctx, conn, name)
	if err != nil || !p.own() || p.pending() == pending {
		return err
	}
	fields := strings.Fields(p.comment)
	return setComment(ctx, conn, name, publicationComment(pending, fields[len(fields)-1]))
}

func setComment(ctx context.Context, conn *pgx.Conn, name, comment string) error {
	_, err := conn.Exec(ctx, "COMMENT ON PUBLICATION "+ident(name)+" IS '"+comment+"'")
	if err != nil {
		return publicationFault(name, "COMMENT ON PUBLICATION "+ident(name)+" IS …", err)
	}
	return nil
}

// publicationTables lists tables for a statement. ONLY keeps the children of an inheritance parent out; partitions are
// published by their root.
func publicationTables(list []*relation) string {
	var out []string
	for _, r := range list {
		item := r.ident()
		if !r.partitioned {
			item = "ONLY " + item
		}
		if r.spec.Where != "" {
			item += " WHERE (" + r.spec.Where + ")"
		}
		out = append(out, item)
	}
	return strings.Join(out, ", ")
}

func filterHash(list []*relation) string {
	h := fnv.New64a()
	for _, r := range list {
		if r.spec.Where != "" {
			fmt.Fprintf(h, "%q %q\n", r.full(), r.spec.Where)
		}
	}
	return fmt.Sprintf("filters=%x", h.Sum64())
}

// publicationFault names the remedy where rights are missing.
func publicationFault(name, statement string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "42501":
			return fmt.Errorf("publication %q: %s; let the owner of the tables or a superuser run: %s: %w", name, pg.Message, statement, connectors.ErrFatal)
		case "42703", "42601", "42P17", "0A000", "42P10":
			return fmt.Errorf("publication %q: %s (in: %s): %w", name, pg.Message, statement, connectors.ErrFatal)
		}
	}
	return fmt.Errorf("change publication %q: %w", name, err)
}
