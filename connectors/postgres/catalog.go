package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// catalog answers questions about tables and types, from one connection that is opened when first needed. Its methods
// may be called from any goroutine.
type catalog struct {
	dial     *dialer
	config   *SourceConfig
	database string

	mu    sync.Mutex
	conn  *pgx.Conn
	types map[uint32]*typeInfo
	texts map[typeRef]string
}

// typeRef is a type with its modifier.
type typeRef struct {
	oid uint32
	mod int32
}

// typeInfo is what pg_type says.
type typeInfo struct {
	ref     typeRef // of a domain: its base type; else the type itself
	decoder *decoder
	domain  bool
	labels  []string
}

// relation is a table that we read: an ordinary one, or the root of a partitioned one.
type relation struct {
	oid          uint32
	schema, name string
	partitioned  bool
	unlogged     bool
	readable     bool // we have the right to SELECT
	hidden       bool // row level security would hide rows from us
	user         string
	identity     byte // d default, f full, i index, n nothing
	published    bool // with all tables, by somebody else: writes that lack an identity are refused anyway
	estimate     int64
	spec         *connectors.TableSpec
	columns      []attribute
	dropped      []attribute // their numbers and the transactions that dropped them
	last         int16       // the highest attribute number that there ever was
	node         uint32      // the table's file, or a hash of those of its partitions
	members      []member
	primary      []int16 // attribute numbers in key order
	immediate    bool    // the primary key is not deferrable
	index        []int16 // of the replica identity, when it is an index
}

func (r *relation) full() string { return r.schema + "." + r.name }

func (r *relation) ident() string { return ident(r.schema, r.name) }

// own is the table in a query, without those that inherit from it, which are tables of their own.
func (r *relation) own() string {
	if r.partitioned {
		return r.ident()
	}
	return "ONLY " + r.ident()
}

// attribute is a column as pg_attribute or a relation message has it.
type attribute struct {
	number     int16 // 0: not known
	name       string
	typ        typeRef
	text       string // of the type; empty: not known
	notNull    bool
	generated  bool
	expression string  // of a generated column
	needs      []int16 // the columns that its expression uses
	missing    bool    // rows from before it was added show a default that they do not store
	writer     uint32  // the transaction that wrote the catalog's row last
}

// same reports that both describe the same version of a column.
func (a *attribute) same(b *attribute) bool { return a.name == b.name && a.typ == b.typ }

// do runs a function on the connection, which is opened when there is none and dropped when it is broken.
func (c *catalog) do(ctx context.Context, f func(*pgx.Conn) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locked(ctx, f)
}

func (c *catalog) locked(ctx context.Context, f func(*pgx.Conn) error) error {
	if c.conn == nil || c.conn.IsClosed() {
		conn, err := c.dial.sql(ctx)
		if err != nil {
			return err
		}
		c.conn = conn
	}
	return f(c.conn)
}

// separate runs a function that may take long on a connection of its own.
func (c *catalog) separate(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := c.dial.sql(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

func (c *catalog) close(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close(ctx)
		c.conn = nil
	}
}

const relationsQuery = `SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', c.relpersistence = 'u', c.relreplident::text,
  coalesce(has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE'), false), row_security_active(c.oid), current_user::text,
  CASE WHEN c.relkind = 'p' THEN (SELECT sum(greatest(l.reltuples, 0))::bigint FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid WHERE p.isleaf)
       ELSE greatest(c.reltuples, 0)::bigint END,
  EXISTS (SELECT FROM pg_catalog.pg_publication WHERE puballtables AND pubupdate AND pubdelete), c.relnatts,
  CASE WHEN c.relkind = 'p' THEN (SELECT coalesce(sum(hashoid(l.relfilenode)), 0)::int8 FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid WHERE p.isleaf)
       ELSE c.relfilenode::int8 END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relname !~ '^_trunkline_' AND ($1 = 0 OR c.oid = $1::oid)
ORDER BY 2, 3`

// relations lists the tables that the configuration chooses, with all that is known about them at one moment.
func (c *catalog) relations(ctx context.Context) ([]*relation, error) {
	var list []*relation
	err := c.do(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(pgx.Tx) (err error) {
			list, err = c.relationsOn(ctx, conn, 0)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return list, nil
}

// relationsOn lists them on a connection: all, or the one with that oid.
func (c *catalog) relationsOn(ctx context.Context, conn *pgx.Conn, oid uint32) ([]*relation, error) {
	rows, err := conn.Query(ctx, relationsQuery, int64(oid))
	if err != nil {
		return nil, err
	}
	list, err := collect(rows, func(rows pgx.Rows) (*relation, error) {
		var r relation
		var identity string
		var estimate *int64
		var node int64
		err := rows.Scan(&r.oid, &r.schema, &r.name, &r.partitioned, &r.unlogged, &identity, &r.readable, &r.hidden, &r.user, &estimate, &r.published, &r.last, &node)
		if err == nil {
			r.identity, r.node = identity[0], uint32(node)
			if estimate != nil {
				r.estimate = *estimate
			}
		}
		return &r, err
	})
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r *relation) bool {
		r.spec = c.config.spec(r.full())
		return r.spec == nil
	})
	return list, c.describe(ctx, conn, list)
}

const attributesQuery = `SELECT attrelid, attnum, attname, atttypid, atttypmod, attnotnull, attgenerated <> '', coalesce(format_type(nullif(atttypid, 0), atttypmod), ''),
  a.xmin::text::int8, attisdropped, atthasmissing OR c.relkind = 'p' AND EXISTS (SELECT FROM pg_partition_tree(c.oid) p
    JOIN pg_catalog.pg_attribute l ON l.attrelid = p.relid AND l.attname = a.attname AND l.atthasmissing WHERE p.isleaf),
  CASE WHEN attgenerated <> '' THEN pg_get_expr(adbin, adrelid) ELSE '' END,
  CASE WHEN attgenerated <> '' THEN ARRAY(SELECT DISTINCT refobjsubid::int2 FROM pg_catalog.pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = attrelid AND refobjsubid > 0
    AND refobjsubid <> attnum AND (classid = 'pg_attrdef'::regclass AND objid = d.oid OR classid = 'pg_class'::regclass AND objid = attrelid AND objsubid = attnum)) ELSE '{}' END
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = attrelid LEFT JOIN pg_catalog.pg_attrdef d ON adrelid = attrelid AND adnum = attnum WHERE attrelid = ANY($1::oid[]) AND attnum > 0 ORDER BY attrelid, attnum`

const keysQuery = `SELECT indrelid, indisprimary, indisreplident, indimmediate, indkey::int2[]
FROM pg_catalog.pg_index WHERE indrelid = ANY($1::oid[]) AND (indisprimary OR indisreplident) AND indisvalid`

// describe fills in columns and keys.
func (c *catalog) describe(ctx context.Context, conn *pgx.Conn, list []*relation) error {
	byOID := make(map[uint32]*relation, len(list))
	oids := make([]int64, 0, len(list))
	for _, r := range list {
		byOID[r.oid], r.columns, r.dropped, r.primary, r.index, r.members = r, nil, nil, nil, nil, nil
		oids = append(oids, int64(r.oid))
	}
	rows, err := conn.Query(ctx, attributesQuery, oids)
	if err != nil {
		return err
	}
	_, err = collect(rows, func(rows pgx.Rows) (none struct{}, err error) {
		var a attribute
		var oid uint32
		var writer int64
		var dropped bool
		err = rows.Scan(&oid, &a.number, &a.name, &a.typ.oid, &a.typ.mod, &a.notNull, &a.generated, &a.text, &writer, &dropped, &a.missing, &a.expression, &a.needs)
		a.writer = uint32(writer)
		switch {
		case err != nil:
		case dropped:
			byOID[oid].dropped = append(byOID[oid].dropped, a)
		default:
			byOID[oid].columns = append(byOID[oid].columns, a)
		}
		return none, err
	})
	if err != nil {
		return err
	}
	if rows, err = conn.Query(ctx, membersQuery, oids); err != nil {
		return err
	}
	_, err = collect(rows, func(rows pgx.Rows) (none struct{}, err error) {
		oid, m, err := scanMember(rows)
		if err == nil {
			byOID[oid].members = append(byOID[oid].members, m)
		}
		return none, err
	})
	if err != nil {
		return err
	}
	return describeKeys(ctx, conn, byOID, oids)
}

// describeKeys fills in primary keys and the indexes of replica identities.
func describeKeys(ctx context.Context, conn *pgx.Conn, byOID map[uint32]*relation, oids []int64) error {
	rows, err := conn.Query(ctx, keysQuery, oids)
	if err != nil {
		return err
	}
	_, err = collect(rows, func(rows pgx.Rows) (none struct{}, err error) {
		var oid uint32
		var primary, identity, immediate bool
		var key []int16
		if err = rows.Scan(&oid, &primary, &identity, &immediate, &key); err != nil {
			return none, err
		}
		if primary {
			byOID[oid].primary, byOID[oid].immediate = key, immediate
		}
		if identity {
			byOID[oid].index = key
		}
		return none, nil
	})
	return err
}

// refresh reads a relation anew. It returns false when the table is gone.
func (c *catalog) refresh(ctx context.Context, old *relation) (*relation, bool, error) {
	fresh := *old
	found := false
	err := c.do(ctx, func(conn *pgx.Conn) error {
		var identity string
		err := conn.QueryRow(ctx, `SELECT n.nspname, c.relname, c.relreplident::text, c.relnatts FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::oid`,
			int64(old.oid)).Scan(&fresh.schema, &fresh.name, &identity, &fresh.last)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		found, fresh.identity = true, identity[0]
		return c.describe(ctx, conn, []*relation{&fresh})
	})
	if err != nil {
		return nil, false, fmt.Errorf("describe table %s: %w", old.full(), err)
	}
	return &fresh, found, nil
}

const typesQuery = `SELECT t.oid, t.typname, t.typtype::text, t.typbasetype, t.typtypmod,
  CASE WHEN t.typoutput = 'pg_catalog.array_out'::regproc THEN t.typelem ELSE 0 END, coalesce(e.typdelim::text, ','),
  ARRAY(SELECT enumlabel::text FROM pg_catalog.pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem WHERE t.oid = ANY($1::oid[])`

// typeRow is a row of typesQuery.
type typeRow struct {
	oid, base, elem uint32
	name, class     string
	mod             int32
	delim           string
	labels          []string
}

// loadTypes makes sure that the types, their base and their element types are known. enums are read again: their
// labels can grow.
func (c *catalog) loadTypes(ctx context.Context, conn *pgx.Conn, oids []uint32) error {
	known := map[uint32]*typeRow{}
	for want := oids; len(want) > 0; {
		var ask []int64
		for _, oid := range want {
			ask = append(ask, int64(oid))
		}
		rows, err := conn.Query(ctx, typesQuery, ask)
		if err != nil {
			return fmt.Errorf("describe types: %w", err)
		}
		list, err := collect(rows, func(rows pgx.Rows) (*typeRow, error) {
			var t typeRow
			err := rows.Scan(&t.oid, &t.name, &t.class, &t.base, &t.mod, &t.elem, &t.delim, &t.labels)
			return &t, err
		})
		if err != nil {
			return fmt.Errorf("describe types: %w", err)
		}
		want = nil
		for _, t := range list {
			known[t.oid] = t
			for _, oid := range []uint32{t.base, t.elem} {
				if oid != 0 && known[oid] == nil {
					want = append(want, oid)
				}
			}
		}
	}
	for _, oid := range oids {
		c.types[oid] = resolveType(oid, known)
	}
	return nil
}

// resolveType follows domains to their base type and arrays to their element type.
func resolveType(oid uint32, known map[uint32]*typeRow) *typeInfo {
	info := &typeInfo{ref: typeRef{oid, -1}, decoder: textDecoder}
	t := known[oid]
	for t != nil && t.class == "d" {
		info.domain = true
		if info.ref.mod == -1 {
			info.ref.mod = t.mod
		}
		info.ref.oid = t.base
		t = known[t.base]
	}
	if t == nil {
		return info
	}
	info.labels = t.labels
	switch d := builtin[t.oid]; {
	case d != nil:
		info.decoder = d
	case len(t.labels) > 0:
		info.decoder = &decoder{kind: connectors.Text, form: formEnum, labels: map[string]bool{}}
		for _, label := range t.labels {
			info.decoder.labels[label] = true
		}
	case t.elem != 0:
		elem := resolveType(t.elem, known)
		info.labels = elem.labels
		info.decoder = &decoder{kind: connectors.Array, form: formArray, elem: elem.decoder, delim: t.delim[0]}
	case t.name == "hstore" && t.class == "b":
		info.decoder = &decoder{kind: connectors.Map, form: formHstore}
	}
	return info
}

// complete fills in the texts of types and returns the infos of all columns.
func (c *catalog) complete(ctx context.Context, columns []attribute) ([]*typeInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	infos := make([]*typeInfo, len(columns))
	var missing []uint32
	for _, a := range columns {
		if t := c.types[a.typ.oid]; (t == nil || len(t.labels) > 0) && !slices.Contains(missing, a.typ.oid) {
			missing = append(missing, a.typ.oid)
		}
	}
	if len(missing) > 0 {
		if err := c.locked(ctx, func(conn *pgx.Conn) error { return c.loadTypes(ctx, conn, missing) }); err != nil {
			return nil, err
		}
	}
	for i := range columns {
		a := &columns[i]
		info := c.types[a.typ.oid]
		infos[i] = info
		ref := a.typ
		if info.domain {
			ref = info.ref
		} else if a.text != "" {
			continue
		}
		text, ok := c.texts[ref]
		if !ok {
			err := c.locked(ctx, func(conn *pgx.Conn) error {
				return conn.QueryRow(ctx, "SELECT format_type($1::oid, $2::int)", int64(ref.oid), ref.mod).Scan(&text)
			})
			if err != nil {
				return nil, fmt.Errorf("describe type %d: %w", ref.oid, err)
			}
			c.texts[ref] = text
		}
		a.text = text
	}
	return infos, nil
}

// collect reads all rows of a query.
func collect[T any](rows pgx.Rows, scan func(pgx.Rows) (T, error)) ([]T, error) {
	defer rows.Close()
	var list []T
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, rows.Err()
}
