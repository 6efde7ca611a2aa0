package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// outOfLineQuery finds the columns of tables that have values out of line, in the table itself or in its partitions.
const outOfLineQuery = `SELECT r.oid, a.attnum FROM unnest($1::oid[]) r(oid) JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attstorage IN ('x', 'e') AND EXISTS (SELECT FROM pg_partition_tree(r.oid) p JOIN pg_catalog.pg_class c ON c.oid = p.relid
    WHERE c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > 0
    UNION ALL SELECT FROM pg_catalog.pg_class c WHERE c.oid = r.oid AND c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > 0)
ORDER BY 1, 2`

// unseen names the columns of the tables whose changes the stream does not carry in every case, and what happens then. What
// it never carries is in docs/types.md.
func (k *checker) unseen(ctx context.Context, list []*relation) error {
	outOfLine := map[uint32][]int16{}
	var oids []int64
	for _, r := range list {
		oids = append(oids, int64(r.oid))
	}
	err := k.catalog.do(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, outOfLineQuery, oids)
		if err != nil {
			return err
		}
		_, err = collect(rows, func(rows pgx.Rows) (none struct{}, err error) {
			var oid uint32
			var number int16
			err = rows.Scan(&oid, &number)
			outOfLine[oid] = append(outOfLine[oid], number)
			return none, err
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("look for values out of line: %w", err)
	}
	for _, r := range list {
		k.unseenOf(r, outOfLine[r.oid])
	}
	return nil
}

func (k *checker) unseenOf(r *relation, outOfLine []int16) {
	subject := "table " + r.full()
	large := func(n int16) bool { return slices.Contains(outOfLine, n) && !r.identifies(n) }
	named := func(want func(a attribute) bool) string {
		var names []string
		for _, a := range r.columns {
			if (len(r.spec.Columns) == 0 || slices.Contains(r.spec.Columns, a.name)) && want(a) {
				names = append(names, a.name)
			}
		}
		return strings.Join(names, ", ")
	}
	remedy := r.alter("REPLICA IDENTITY FULL") + " carries them"
	if names := named(func(a attribute) bool { return !a.generated && large(a.number) }); names != "" {
		k.info(subject, "an update that leaves a large value as it is does not carry it; records name such columns in unchanged: "+names, remedy)
	}
	if names := named(func(a attribute) bool { return a.generated && slices.ContainsFunc(a.needs, large) }); names != "" {
		k.warn(subject, "generated columns cannot be computed for an update that leaves a large value as it is which they are made of, and count as unchanged then: "+names, remedy)
	}
	again := "nothing; altered: warn leaves it to you"
	if k.config.Altered == alteredWarn {
		again = "after such a change: trunkline resync SOURCE/" + r.full()
	}
	if names := named(func(a attribute) bool {
		return slices.ContainsFunc(r.members, func(m member) bool { return m.column == a.number })
	}); names != "" {
		k.info(subject, "the stream does not carry a renamed label of an enum or another attribute of a composite type, which the table is read anew for: "+names, again)
	}
	if r.partitioned {
		k.info(subject, "the stream does not carry rows that come with ATTACH PARTITION, or go with DETACH or DROP of a partition", "after such a change: trunkline resync SOURCE/"+r.full())
	}
}
