package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/trunkline/trunkline/connectors"
)

// target is a table of the target database as the sink last saw it.
type target struct {
	schema, name string
	sql          string // "schema"."name"
	columns      []targetColumn
	unique       [][]uniqueColumn // the unique indexes that ON CONFLICT can use, the primary key first
	primary      bool             // unique[0] is the primary key
	plain        bool             // COPY may go into it: no row security, not a view
	foreign      bool             // it has foreign keys
	stage        string           // the temporary table of this connection, once it exists
	staged       int              // rows that the stage holds in this transaction, dead or alive
	retry        backoff          // when to try COPY into the table itself again
}

// targetColumn describes a column of a target.
type targetColumn struct {
	name      string
	sql       string // quoted
	number    int16
	cast      string // its type without a modifier, for casts: a cast to varchar(3) would cut what it is given
	typ       string // its type as format_type shows it
	oid       uint32 // of the type, of the base type of a domain
	elem      uint32 // arrays: of the elements' base type
	modifier  int32  // of the type; -1 for none
	delimiter byte   // arrays: between elements
	category  byte   // pg_type.typcategory
	hstore    bool   // the type, or that of the elements, is hstore
	domain    bool
	binary    binaryForm // how COPY's binary format writes it; zero: not
	generated bool
	always    bool // GENERATED ALWAYS AS IDENTITY: INSERT must say so, UPDATE cannot
	notNull   bool
	fallback  bool // has a default
}

// uniqueColumn is a key column of a unique index, with the operator by which that index finds a row.
type uniqueColumn struct {
	number   int16
	operator string
}

func (t *target) column(name string) int {
	return slices.IndexFunc(t.columns, func(c targetColumn) bool { return c.name == name })
}

// keyed returns the unique index over exactly these columns, nil if there is none.
func (t *target) keyed(columns []int) []uniqueColumn {
	for _, u := range t.unique {
		fits := len(u) == len(columns)
		for _, c := range columns {
			fits = fits && c >= 0 && slices.ContainsFunc(u, func(k uniqueColumn) bool { return k.number == t.columns[c].number })
		}
		if fits {
			return u
		}
	}
	return nil
}

// targetFor returns the target of a table, reading the catalog when it is not known yet; nil when it does not exist.
func (s *Sink) targetFor(ctx context.Context, table *connectors.Table) (*target, error) {
	schema, name := s.template.expand(table)
	id := qualified(schema, name)
	if t := s.targets[id]; t != nil {
		return t, nil
	}
	t, err := s.loadTarget(ctx, schema, name)
	if err != nil {
		return nil, fmt.Errorf("read catalog of table %s.%s: %w", schema, name, s.fault(err))
	}
	if t != nil {
		s.targets[id] = t
	}
	return t, nil
}

// forget drops what is known of a target, so that the catalog is read again. The stage keeps its old shape, so the next
// one gets another name.
func (s *Sink) forget(schema, name string) {
	delete(s.targets, qualified(schema, name))
	clear(s.routes)
	clear(s.fits)
}

func (s *Sink) loadTarget(ctx context.Context, schema, name string) (*target, error) {
	var relation uint32
	var kind string
	var security, foreign bool
	err := s.conn.QueryRow(ctx, `SELECT c.oid, c.relkind::text, c.relrowsecurity,
		EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'f') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'f')`, schema, name).Scan(&relation, &kind, &security, &foreign)
	if err == pgx.ErrNoRows {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &target{schema: schema, name: name, sql: qualified(schema, name),
		plain: !security && (kind == "r" || kind == "p"), foreign: foreign}
	if t.columns, err = s.loadColumns(ctx, relation); err != nil {
		return nil, err
	}
	return t, s.loadUnique(ctx, t, relation)
}

func (s *Sink) loadColumns(ctx context.Context, relation uint32) ([]targetColumn, error) {
	rows, err := s.conn.Query(ctx, `WITH RECURSIVE base(number, declared, oid, modifier) AS (
			SELECT attnum, atttypid, atttypid, atttypmod FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
			UNION ALL SELECT b.number, b.declared, t.typbasetype, t.typtypmod FROM base b JOIN pg_type t ON t.oid = b.oid WHERE t.typtype = 'd')
		SELECT a.attname::text, a.attnum, format_type(a.atttypid, -1), format_type(a.atttypid, a.atttypmod), b.oid,
			CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 AND t.typname NOT IN ('int2vector', 'oidvector') THEN coalesce(nullif(e.typbasetype, 0), t.typelem) ELSE 0 END,
			b.modifier, coalesce(e.typdelim::text, ','), t.typcategory::text, coalesce(e.typname, t.typname) = 'hstore', b.oid <> a.atttypid,
			a.attgenerated <> '', a.attidentity = 'a', a.attnotnull, a.atthasdef OR a.attidentity <> ''
		FROM base b
		JOIN pg_type t ON t.oid = b.oid AND t.typtype <> 'd'
		JOIN pg_attribute a ON a.attrelid = $1 AND a.attnum = b.number
		LEFT JOIN pg_type e ON e.oid = t.typelem
		ORDER BY a.attnum`, relation)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c targetColumn, err error) {
		var delimiter, category string
		err = row.Scan(&c.name, &c.number, &c.cast, &c.typ, &c.oid, &c.elem, &c.modifier, &delimiter, &category, &c.hstore, &c.domain,
			&c.generated, &c.always, &c.notNull, &c.fallback)
		if err == nil {
			c.sql, c.delimiter, c.category = quote(c.name), delimiter[0], category[0]
			if c.binary = binaryForms[c.oid]; category == "E" {
				c.binary = binaryText
			}
		}
		return c, err
	})
}

// loadUnique reads the unique indexes that can arbitrate a conflict. An operator is taken from the index itself, with
// its schema: the search path names pg_catalog alone, where citext, for one, has no equality of its own.
func (s *Sink) loadUnique(ctx context.Context, t *target, relation uint32) error {
	rows, err := s.conn.Query(ctx, `SELECT i.indexrelid, i.indisprimary, i.indkey[k.n - 1], format('OPERATOR(%I.%s)', n.nspname, o.oprname)
		FROM pg_index i
		CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) AS k(n)
		JOIN pg_opclass c ON c.oid = i.indclass[k.n - 1]
		JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amopstrategy = 3 AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
		JOIN pg_operator o ON o.oid = m.amopopr
		JOIN pg_namespace n ON n.oid = o.oprnamespace
		WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
		ORDER BY i.indisprimary DESC, i.indexrelid, k.n`, relation)
	if err != nil {
		return err
	}
	var last uint32
	var index uint32
	var primary bool
	var u uniqueColumn
	_, err = pgx.ForEachRow(rows, []any{&index, &primary, &u.number, &u.operator}, func() error {
		if index != last {
			t.unique = append(t.unique, nil)
			last = index
		}
		t.primary = t.primary || primary
		t.unique[len(t.unique)-1] = append(t.unique[len(t.unique)-1], u)
		return nil
	})
	return err
}

// qualified returns the quoted name of a table.
func qualified(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal returns text as an SQL string; every session has standard_conforming_strings on.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
