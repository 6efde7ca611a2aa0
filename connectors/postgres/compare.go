package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// comparer reads tables of either end for a comparison. Both ends print values under the same settings, so that the text
// of equal rows is equal, and the server hashes that text.
type comparer struct {
	conn    *pgx.Conn
	catalog *catalog
	config  *SourceConfig
	place   func(of *connectors.Table) (schema, name string)
	soft    bool // rows that softColumn marks do not count
	method  string
	known   map[*connectors.Table]*compared
}

// compared is a table that was described.
type compared struct {
	relation *relation
	shape    *shape
	hides    bool // it has softColumn
}

func compareSource(decode connectors.Decode) (connectors.OpenComparer, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) (connectors.Comparer, error) {
		place := func(of *connectors.Table) (string, string) { return of.Schema, of.Name }
		return newComparer(ctx, config, env, place, false)
	}, nil
}

func compareSink(decode connectors.Decode) (connectors.OpenComparer, error) {
	config := DefaultSinkConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) (connectors.Comparer, error) {
		if config.Write == writeAppend {
			return nil, fmt.Errorf("%w: a target with write: append keeps every image of a row, so it cannot equal its source", connectors.ErrFatal)
		}
		template, err := parseTemplate(config.Table)
		if err != nil {
			return nil, err
		}
		as := SourceConfig{DSN: config.DSN, Host: config.Host, Port: config.Port, User: config.User, Password: config.Password,
			Database: config.Database, TLS: config.TLS, SSLRootCert: config.SSLRootCert, SSLCert: config.SSLCert, SSLKey: config.SSLKey,
			Tables: []connectors.TableSpec{{Name: "*"}}}
		return newComparer(ctx, as, env, template.expand, config.Deletes == deletesSoft)
	}, nil
}

func newComparer(ctx context.Context, config SourceConfig, env connectors.Env, place func(*connectors.Table) (string, string), soft bool) (*comparer, error) {
	dial, err := newDialer(config, env.Name)
	if err != nil {
		return nil, err
	}
	conn, err := dial.sql(ctx)
	if err != nil {
		return nil, err
	}
	c := &comparer{conn: conn, config: &config, place: place, soft: soft, known: map[*connectors.Table]*compared{}}
	c.catalog = &catalog{dial: dial, config: &config, conn: conn, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
	// What a hash of the server is for one text tells whether two servers hash alike, whatever their versions.
	if err := conn.QueryRow(ctx, "SELECT 'postgres '||hashtextextended('trunkline' COLLATE \"C\", 0)::text, current_database()").Scan(&c.method, &c.catalog.database); err != nil {
		conn.Close(ctx)
		return nil, fmt.Errorf("look at the server: %w", dial.fault(err))
	}
	return c, nil
}

// Describe implements connectors.Comparer.
func (c *comparer) Describe(ctx context.Context, of *connectors.Table) (*connectors.Table, error) {
	schema, name := c.place(of)
	list, err := c.catalog.relations(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(r *relation) bool { return r.schema == schema && r.name == name })
	if i < 0 {
		return nil, nil
	}
	r := list[i]
	if !r.readable || r.hidden {
		return nil, fmt.Errorf("read table %s: user %q may not see all of its rows; run GRANT SELECT ON %s TO %s", r.full(), r.user, r.ident(), ident(r.user))
	}
	s, err := c.catalog.shapeOf(ctx, r)
	if err != nil {
		return nil, err
	}
	hides := c.soft && s.table.Column(softColumn) >= 0
	c.known[s.table] = &compared{relation: r, shape: s, hides: hides}
	return s.table, nil
}

// Method implements connectors.Comparer.
func (c *comparer) Method() string { return c.method }

// integers are the types whose values can be cut into ranges.
var integers = map[uint32]bool{20: true, 21: true, 23: true}

// Bounds implements connectors.Comparer.
func (c *comparer) Bounds(ctx context.Context, t *connectors.Table) (low, high, rows int64, ok bool, err error) {
	k := c.known[t]
	if len(t.Key) == 0 {
		return 0, 0, k.relation.estimate, false, nil
	}
	first := t.Columns[t.Key[0]].Name
	i := slices.IndexFunc(k.shape.wire, func(a attribute) bool { return a.name == first })
	if !integers[k.shape.wire[i].typ.oid] {
		return 0, 0, k.relation.estimate, false, nil
	}
	var from, to *int64
	query := fmt.Sprintf("SELECT min(%s)::int8, max(%[1]s)::int8 FROM %s", ident(first), k.relation.own())
	if err := c.conn.QueryRow(ctx, query).Scan(&from, &to); err != nil {
		return 0, 0, 0, false, fmt.Errorf("read ends of table %s: %w", k.relation.full(), err)
	}
	if from == nil || to == nil {
		return 0, 0, 0, false, nil
	}
	return *from, *to, k.relation.estimate, true, nil
}

// Sums implements connectors.Comparer.
func (c *comparer) Sums(ctx context.Context, q connectors.Comparison) (connectors.Sums, error) {
	k := c.known[q.Table]
	query := "SELECT b::text, count(*)::text, mod(mod(sum(h), 18446744073709551616) + 18446744073709551616, 18446744073709551616)::text FROM (SELECT " + bucketOfRow(q.Key) +
		" AS b, hashtextextended(" + imageText(q.Columns) + ", 0) AS h FROM " + k.from(q) + ") x GROUP BY b"
	out := connectors.Sums{}
	err := eachRow(c.conn.PgConn().Exec(ctx, query), func(values [][]byte) error {
		b, err := strconv.Atoi(string(values[0]))
		if err != nil {
			return err
		}
		rows, err := strconv.ParseInt(string(values[1]), 10, 64)
		if err != nil {
			return err
		}
		hash, err := strconv.ParseUint(string(values[2]), 10, 64)
		out[b] = connectors.Sum{Rows: rows, Hash: hash}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("hash rows of table %s: %w", k.relation.full(), err)
	}
	return out, nil
}

// imageText is the text of some columns of a row, which tells NULL from empty and where each value ends.
func imageText(columns []string) string { return "ROW(" + names(columns) + ")::text COLLATE \"C\"" }

func bucketOfRow(key []string) string {
	return fmt.Sprintf("(hashtextextended(%s, 1) & %d)", imageText(key), connectors.Buckets-1)
}

func names(columns []string) string {
	var list []string
	for _, c := range columns {
		list = append(list, ident(c))
	}
	return strings.Join(list, ", ")
}

// from is the table with the conditions of a comparison.
func (k *compared) from(q connectors.Comparison) string {
	conditions := []string{"true"}
	if k.hides {
		conditions = append(conditions, ident(softColumn)+" IS NOT TRUE")
	}
	if k.relation.spec.Where != "" {
		conditions = append(conditions, "("+k.relation.spec.Where+")")
	}
	if q.Ranged {
		conditions = append(conditions, fmt.Sprintf("%s BETWEEN %d AND %d", ident(q.Key[0]), q.Low, q.High))
	}
	if q.Buckets != nil {
		var list []string
		for _, b := range q.Buckets {
			list = append(list, strconv.Itoa(b))
		}
		conditions = append(conditions, bucketOfRow(q.Key)+" = ANY ('{"+strings.Join(list, ",")+"}')")
	}
	if q.Keys != nil {
		conditions = append(conditions, "("+names(q.Key)+") IN ("+k.shape.literals(q.Key, q.Keys)+")")
	}
	return k.relation.own() + " WHERE " + strings.Join(conditions, " AND ")
}

// Rows implements connectors.Comparer.
func (c *comparer) Rows(ctx context.Context, q connectors.Comparison, take func([]connectors.Value) error) error {
	k := c.known[q.Table]
	decoders := make([]*decoder, len(q.Columns))
	for i, name := range q.Columns {
		at := slices.IndexFunc(k.shape.wire, func(a attribute) bool { return a.name == name })
		decoders[i] = k.shape.decoders[at]
	}
	var buffer rows
	var refused error
	err := eachRow(c.conn.PgConn().Exec(ctx, "SELECT "+names(q.Columns)+" FROM "+k.from(q)), func(values [][]byte) error {
		if refused != nil {
			return refused
		}
		buffer.reset()
		row := buffer.image(len(values))
		for i, v := range values {
			row[i] = connectors.NullValue()
			if v != nil {
				row[i] = decoders[i].value(&buffer, v)
			}
		}
		refused = take(row)
		return refused
	})
	if err != nil {
		return fmt.Errorf("read rows of table %s: %w", k.relation.full(), err)
	}
	return nil
}

// Close implements connectors.Comparer.
func (c *comparer) Close(ctx context.Context) error { return c.conn.Close(ctx) }
