package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// comparer reads tables of either end for a comparison. SQLite hashes nothing, so rows are always read.
type comparer struct {
	db     *database
	config *SourceConfig
	place  func(of *connectors.Table) string
	soft   bool // rows that _deleted marks do not count
	known  map[*connectors.Table]*compared
}

// compared is a table that was described.
type compared struct {
	from    string // whose values keys are: the dialect of the source
	where   string
	numeric map[string]bool
}

func compareSource(c *SourceConfig) connectors.OpenComparer {
	return func(ctx context.Context, _ connectors.Env) (connectors.Comparer, error) {
		return newComparer(ctx, &c.File, c, func(of *connectors.Table) string { return of.Name }, false)
	}
}

func compareSink(c *SinkConfig) connectors.OpenComparer {
	return func(ctx context.Context, _ connectors.Env) (connectors.Comparer, error) {
		if c.Write == Append {
			return nil, fmt.Errorf("%w: a target with write: append keeps every image of a row, so it cannot equal its source", connectors.ErrFatal)
		}
		all := &SourceConfig{Tables: []connectors.TableSpec{{Name: "*"}}}
		return newComparer(ctx, &c.File, all, c.target, c.Deletes == SoftDeletes)
	}
}

func newComparer(ctx context.Context, f *File, config *SourceConfig, place func(*connectors.Table) string, soft bool) (connectors.Comparer, error) {
	db, err := open(ctx, f, readOnly...)
	if err != nil {
		return nil, err
	}
	return &comparer{db: db, config: config, place: place, soft: soft, known: map[*connectors.Table]*compared{}}, nil
}

// Describe implements connectors.Comparer.
func (c *comparer) Describe(ctx context.Context, of *connectors.Table) (*connectors.Table, error) {
	name := c.place(of)
	spec := c.config.spec(name)
	if spec == nil {
		return nil, nil
	}
	columns, err := columnsOf(ctx, c.db, name)
	if err != nil || len(columns) == 0 {
		return nil, err
	}
	t := &table{Table: &connectors.Table{Dialect: dialect, Schema: schemaName, Name: name}}
	if problem := t.choose(columns, spec); problem != "" {
		return nil, errors.New(problem)
	}
	t.setKey(primaryKey(columns), spec.Key)
	k := &compared{from: of.Dialect, where: spec.Where, numeric: map[string]bool{}}
	if k.from == "" {
		k.from = dialect
	}
	for _, column := range columns {
		k.numeric[column.name] = isNumeric(column.declared)
	}
	if c.soft && findColumn(columns, softColumn) >= 0 {
		k.where = "coalesce(" + quote(softColumn) + ", 0) = 0"
	}
	c.known[t.Table] = k
	return t.Table, nil
}

// Method implements connectors.Comparer.
func (c *comparer) Method() string { return "" }

// Bounds implements connectors.Comparer.
func (c *comparer) Bounds(ctx context.Context, t *connectors.Table) (low, high, rows int64, ok bool, err error) {
	if len(t.Key) == 0 || t.Columns[t.Key[0]].Kind != connectors.Int {
		return 0, 0, 0, false, nil
	}
	key := quote(t.Columns[t.Key[0]].Name)
	var from, to any
	err = c.db.QueryRowContext(ctx, fmt.Sprintf("SELECT min(%s), max(%[1]s), count(*) FROM main.%s", key, quote(t.Name))).Scan(&from, &to, &rows)
	if err != nil {
		return 0, 0, 0, false, fmt.Errorf("read ends of table %s: %w", t.Name, err)
	}
	low, first := from.(int64)
	high, second := to.(int64)
	return low, high, rows, first && second, nil
}

// Sums implements connectors.Comparer.
func (c *comparer) Sums(context.Context, connectors.Comparison) (connectors.Sums, error) {
	return nil, errors.New("hash rows: SQLite does not")
}

// Rows implements connectors.Comparer.
func (c *comparer) Rows(ctx context.Context, q connectors.Comparison, take func([]connectors.Value) error) error {
	query, args := c.known[q.Table].query(q)
	rows, err := c.db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read rows of table %s: %w", q.Table.Name, err)
	}
	defer rows.Close()
	cells, targets, row := make([]any, len(q.Columns)), make([]any, len(q.Columns)), make([]connectors.Value, len(q.Columns))
	kinds := make([]connectors.Kind, len(q.Columns))
	for i, name := range q.Columns {
		targets[i], kinds[i] = &cells[i], q.Table.Columns[q.Table.Column(name)].Kind
	}
	var a arena
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("read rows of table %s: %w", q.Table.Name, err)
		}
		a.bytes = a.bytes[:0]
		for i, cell := range cells {
			row[i] = a.value(kinds[i], cell)
		}
		if err := take(row); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read rows of table %s: %w", q.Table.Name, err)
	}
	return nil
}

// query selects the rows of a comparison.
func (k *compared) query(q connectors.Comparison) (string, []any) {
	var args []any
	conditions := []string{"1"}
	if k.where != "" {
		conditions = append(conditions, "("+k.where+")")
	}
	if q.Ranged {
		conditions = append(conditions, fmt.Sprintf("%s BETWEEN %d AND %d", quote(q.Key[0]), q.Low, q.High))
	}
	if q.Keys != nil {
		one := "(" + strings.Join(slices.Repeat([]string{"?"}, len(q.Key)), ", ") + ")"
		conditions = append(conditions, "("+quoteAll(q.Key)+") IN (VALUES "+strings.Join(slices.Repeat([]string{one}, len(q.Keys)), ", ")+")")
		for _, key := range q.Keys {
			for i, v := range key {
				args = append(args, bindValue(k.from, v, k.numeric[q.Key[i]]))
			}
		}
	}
	return "SELECT " + quoteAll(q.Columns) + " FROM main." + quote(q.Table.Name) + " WHERE " + strings.Join(conditions, " AND "), args
}

// Close implements connectors.Comparer.
func (c *comparer) Close(context.Context) error { return c.db.close() }
