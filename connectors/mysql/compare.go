package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// comparer reads tables of either end for a comparison. Two servers of one kind print a value alike under our session's
// settings, so they hash its text themselves.
type comparer struct {
	endpoint *endpoint
	db       *sql.DB
	reader   *reader // opened when first needed, and again after it was broken off
	catalog  *catalog
	sets     *charsets
	maria    bool
	place    func(of *connectors.Table) (tableName, error)
	soft     bool // rows that softColumn marks do not count
	known    map[*connectors.Table]*compared
}

// compared is a table that was described.
type compared struct {
	name  tableName
	shape *shape
	rows  int64
	where string
	hides bool // it has softColumn
}

func compareSource(decode connectors.Decode) (connectors.OpenComparer, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) (connectors.Comparer, error) {
		place := func(of *connectors.Table) (tableName, error) { return tableName{of.Schema, of.Name}, nil }
		return newComparer(ctx, config.address(), &config, place, false)
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
		e, err := config.address().endpoint()
		if err != nil {
			return nil, err
		}
		place := func(of *connectors.Table) (tableName, error) { return config.target(of, e.database) }
		all := &SourceConfig{Tables: []connectors.TableSpec{{Name: "*"}}}
		return newComparer(ctx, config.address(), all, place, config.Deletes == deletesSoft)
	}, nil
}

func newComparer(ctx context.Context, a address, config *SourceConfig, place func(*connectors.Table) (tableName, error), soft bool) (_ *comparer, err error) {
	c := &comparer{place: place, soft: soft, known: map[*connectors.Table]*compared{}}
	if c.endpoint, err = a.endpoint(); err != nil {
		return nil, err
	}
	if c.db, err = c.endpoint.pool(); err != nil {
		return nil, err
	}
	server, err := loadServer(ctx, c.db)
	if err != nil {
		return nil, errors.Join(err, c.db.Close())
	}
	c.maria, c.sets = server.maria, &charsets{db: c.db}
	c.catalog = &catalog{db: c.db, config: config, maria: server.maria}
	return c, nil
}

// Describe implements connectors.Comparer.
func (c *comparer) Describe(ctx context.Context, of *connectors.Table) (*connectors.Table, error) {
	name, err := c.place(of)
	if err != nil {
		return nil, err
	}
	spec := c.catalog.config.spec(name)
	if spec == nil {
		return nil, nil
	}
	list, err := c.catalog.tables(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(t *foundTable) bool { return t.name == name })
	if i < 0 {
		return nil, nil
	}
	s, err := newShape(name, list[i].def, spec, c.sets)
	if err != nil {
		return nil, err
	}
	c.known[s.table] = &compared{name: name, shape: s, rows: list[i].rows, where: spec.Where, hides: c.soft && list[i].def.column(softColumn) >= 0}
	return s.table, nil
}

// Method implements connectors.Comparer.
func (c *comparer) Method() string {
	if c.maria {
		return "mariadb md5"
	}
	return "mysql md5"
}

// Bounds implements connectors.Comparer.
func (c *comparer) Bounds(ctx context.Context, t *connectors.Table) (low, high, rows int64, ok bool, err error) {
	k := c.known[t]
	if len(t.Key) == 0 || t.Columns[t.Key[0]].Kind != connectors.Int {
		return 0, 0, k.rows, false, nil
	}
	var from, to sql.NullInt64
	query := fmt.Sprintf("SELECT MIN(%s), MAX(%[1]s) FROM %s", ident(t.Columns[t.Key[0]].Name), k.name.ident())
	if err := c.db.QueryRowContext(ctx, query).Scan(&from, &to); err != nil {
		return 0, 0, 0, false, fmt.Errorf("read ends of table %s: %w", k.name.full(), settle(err))
	}
	return from.Int64, to.Int64, k.rows, from.Valid && to.Valid, nil
}

// Sums implements connectors.Comparer.
func (c *comparer) Sums(ctx context.Context, q connectors.Comparison) (connectors.Sums, error) {
	k := c.known[q.Table]
	query := "SELECT b, COUNT(*), MOD(SUM(h), 18446744073709551616) FROM (SELECT " + k.bucket(q.Key) +
		" AS b, CAST(CONV(LEFT(MD5(" + k.text(q.Columns) + "), 16), 16, 10) AS UNSIGNED) AS h FROM " + k.from(q) + ") x GROUP BY b"
	out := connectors.Sums{}
	err := c.each(ctx, query, func(row [][]byte) error {
		b, err := strconv.Atoi(string(row[0]))
		if err != nil {
			return err
		}
		rows, err := strconv.ParseInt(string(row[1]), 10, 64)
		if err != nil {
			return err
		}
		hash, err := strconv.ParseUint(string(row[2]), 10, 64)
		out[b] = connectors.Sum{Rows: rows, Hash: hash}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("hash rows of table %s: %w", k.name.full(), err)
	}
	return out, nil
}

// text is the text of some columns of a row, with the length of each before it.
func (k *compared) text(columns []string) string {
	var parts []string
	for _, name := range columns {
		text := ident(name)
		switch d := k.shape.decoders[k.shape.def.column(name)]; d.form {
		case formText, formEnum, formSet:
			text = "CAST(CONVERT(" + text + " USING utf8mb4) AS BINARY)"
		case formFloat:
			text = "CAST(CAST(" + text + " * 1e0 AS CHAR) AS BINARY)"
		case formBit:
			text = "CAST(HEX(" + text + ") AS BINARY)"
		case formBytes:
		default:
			text = "CAST(CAST(" + text + " AS CHAR) AS BINARY)"
		}
		parts = append(parts, "IFNULL(CONCAT(LENGTH("+text+"), ':', "+text+"), '-')")
	}
	return "CONCAT(" + strings.Join(parts, ", ") + ")"
}

// bucket takes the first twelve bits of the key's hash.
func (k *compared) bucket(key []string) string {
	return "CONV(LEFT(MD5(" + k.text(key) + "), 3), 16, 10)"
}

// from is the table with the conditions of a comparison.
func (k *compared) from(q connectors.Comparison) string {
	conditions := []string{"1 = 1"}
	if k.hides {
		conditions = append(conditions, "COALESCE("+ident(softColumn)+", 0) = 0")
	}
	if k.where != "" {
		conditions = append(conditions, "("+k.where+")")
	}
	if q.Ranged {
		conditions = append(conditions, fmt.Sprintf("%s BETWEEN %d AND %d", ident(q.Key[0]), q.Low, q.High))
	}
	if q.Buckets != nil {
		var list []string
		for _, b := range q.Buckets {
			list = append(list, strconv.Itoa(b))
		}
		conditions = append(conditions, k.bucket(q.Key)+" IN ("+strings.Join(list, ",")+")")
	}
	if q.Keys != nil {
		var list []string
		for _, key := range q.Keys {
			var same []string
			for i, v := range key {
				same = append(same, ident(q.Key[i])+" = "+valueLiteral(v))
			}
			list = append(list, "("+strings.Join(same, " AND ")+")")
		}
		conditions = append(conditions, "("+strings.Join(list, " OR ")+")")
	}
	return k.name.ident() + " WHERE " + strings.Join(conditions, " AND ")
}

// valueLiteral writes a value of a key as SQL.
func valueLiteral(v connectors.Value) string {
	switch v.Kind() {
	case connectors.Int, connectors.Uint, connectors.Bool, connectors.Decimal, connectors.Float:
		return string(v.AppendText(nil))
	case connectors.Bytes:
		return "x'" + hex.EncodeToString(v.Data()) + "'"
	case connectors.Bits:
		return "b'" + string(v.Data()) + "'"
	case connectors.TimestampTZ, connectors.Timestamp:
		return "'" + strings.ReplaceAll(strings.TrimSuffix(string(v.Data()), "Z"), "'", "''") + "'"
	}
	return "_utf8mb4 x'" + hex.EncodeToString(v.AppendText(nil)) + "'"
}

// Rows implements connectors.Comparer.
func (c *comparer) Rows(ctx context.Context, q connectors.Comparison, take func([]connectors.Value) error) error {
	k := c.known[q.Table]
	var list []string
	decoders := make([]*decoder, len(q.Columns))
	for i, name := range q.Columns {
		at := k.shape.def.column(name)
		decoders[i] = k.shape.decoders[at]
		text := ident(name)
		if decoders[i].form == formFloat {
			text += " * 1e0"
		}
		list = append(list, text)
	}
	var buffer rows
	err := c.each(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+k.from(q), func(values [][]byte) error {
		buffer.reset()
		row := buffer.image(len(values))
		for i, v := range values {
			row[i] = connectors.NullValue()
			if v != nil {
				row[i] = decoders[i].text(&buffer, v)
			}
		}
		return take(row)
	})
	if err != nil {
		return fmt.Errorf("read rows of table %s: %w", k.name.full(), err)
	}
	return nil
}

// each runs a query on the connection for rows.
func (c *comparer) each(ctx context.Context, query string, f func([][]byte) error) error {
	if c.reader == nil {
		conn, err := c.endpoint.dial(ctx)
		if err != nil {
			return settle(err)
		}
		c.reader = newReader(conn)
	}
	err := c.reader.each(ctx, query, f)
	if err != nil {
		c.reader.close()
		c.reader = nil
	}
	return settle(err)
}

// Close implements connectors.Comparer.
func (c *comparer) Close(context.Context) error {
	if c.reader != nil {
		c.reader.close()
	}
	return c.db.Close()
}

// Reach implements connectors.Follower.
func (s *Source) Reach(ctx context.Context) (func(connectors.Position) bool, error) {
	end, err := s.end(ctx)
	if err != nil {
		return nil, err
	}
	return func(p connectors.Position) bool {
		at, err := parsePosition(p)
		return err == nil && at.Snapshot == nil && !(place{at.File, at.Pos}).before(end)
	}, nil
}
