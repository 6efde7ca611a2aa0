package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"github.com/trunkline/trunkline/connectors"
)

var (
	errNoKey    = errors.New("a value of the key is NULL or missing")
	errNoOldRow = errors.New("the table has no key and the change does not carry the old row")
)

// writer applies one batch inside a transaction.
type writer struct {
	sink    *Sink
	refused []connectors.RowError
}

// isRefusal reports an error about a row: data that a column cannot hold, a constraint, a trigger that says no.
func isRefusal(err error) bool {
	if errors.Is(err, errNoKey) || errors.Is(err, errNoOldRow) || errors.Is(err, errNoNumber) || errors.Is(err, driver.ErrPktTooLarge) {
		return true
	}
	var e *driver.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Number {
	case 1205, 1213: // lock wait, deadlock
		return false
	case 1264, 1265, 1292, 1300, 1364, 1366, 1367, 1406, 1526, 3819, 4025, 4078, 3140, 3141, 3143, 3156, 1416, 1690, 1153:
		return true
	}
	state := string(e.SQLState[:2])
	return state == "22" || state == "23" || state == "45"
}

// apply applies the changes in order: a stretch of one table at once, a truncate between.
func (w *writer) apply(ctx context.Context, changes []connectors.Change) error {
	for i := 0; i < len(changes); {
		c := &changes[i]
		if c.Op == connectors.Message {
			i++
			continue
		}
		tg, err := w.sink.target(ctx, c.Table)
		if err != nil {
			return err
		}
		if c.Op == connectors.Truncate {
			if err := w.truncate(ctx, tg); err != nil {
				return err
			}
			i++
			continue
		}
		n := i + 1
		for n < len(changes) && changes[n].Table == c.Table && changes[n].Op != connectors.Truncate && changes[n].Op != connectors.Message {
			n++
		}
		if err := w.stretch(ctx, tg, changes, i, n); err != nil {
			return err
		}
		i = n
	}
	return nil
}

// truncate empties a table in a way that the transaction can take back.
func (w *writer) truncate(ctx context.Context, tg *target) error {
	switch {
	case w.sink.config.Deletes == deletesIgnore || w.sink.config.Write == writeAppend:
		return nil
	case tg.soft:
		return w.sink.exec(ctx, "UPDATE "+tg.name.ident()+" SET "+ident(softColumn)+" = 1")
	}
	return w.sink.exec(ctx, "DELETE FROM "+tg.name.ident())
}

// stretch applies changes of one version of a table.
func (w *writer) stretch(ctx context.Context, tg *target, changes []connectors.Change, from, to int) error {
	p := &batchPlan{tg: tg, sink: w.sink}
	for i := from; i < to; i++ {
		if err := w.change(ctx, p, i, &changes[i]); err != nil {
			return err
		}
	}
	return w.flush(ctx, p)
}

// hasInvalid reports the empty value of an enum that has no such label, which MySQL stores for a label that does not
// exist.
func (t *target) hasInvalid(row []connectors.Value) bool {
	for i := range row {
		labels := t.source.Columns[i].Labels
		if t.enums && len(labels) > 0 && t.types[i].base == "enum" && row[i].Kind() == connectors.Text && len(row[i].Data()) == 0 && !slices.Contains(labels, "") {
			return true
		}
	}
	return false
}

// effect is what the changes of one key in a stretch come down to.
type effect struct {
	index int                // of the last change
	row   []connectors.Value // nil: the row goes
	old   []connectors.Value // of a row that goes: holds the key
}

// batchPlan collects what can be done in few statements.
type batchPlan struct {
	tg      *target
	sink    *Sink
	effects []*effect
	byKey   map[string]*effect
	key     []byte
}

// change takes a change into the plan, or applies it by itself when it does not fit there.
func (w *writer) change(ctx context.Context, p *batchPlan, i int, c *connectors.Change) error {
	config := &w.sink.config
	switch {
	case c.Op == connectors.Delete && config.Deletes == deletesIgnore:
		return nil
	case config.Write == writeAppend || len(p.tg.key) == 0 && (c.Op == connectors.Insert || c.Op == connectors.Snapshot):
		row := c.After
		if c.Op == connectors.Delete {
			row = c.Before
		}
		if p.tg.whole(row) && c.Op != connectors.Delete && !p.tg.hasInvalid(row) {
			p.effects = append(p.effects, &effect{index: i, row: row})
			return nil
		}
		return w.single(ctx, p, i, row, func() error { return w.add(ctx, p.tg, row, c.Op == connectors.Delete) })
	case len(p.tg.key) == 0:
		return w.single(ctx, p, i, c.After, func() error { return w.byValue(ctx, p.tg, c) })
	case c.Op == connectors.Delete:
		if !p.tg.hasKey(c.Before) {
			return w.verdict(i, errNoKey)
		}
		p.put(i, c.Before, &effect{index: i, old: c.Before})
		return p.settle(ctx, w)
	case !p.tg.hasKey(c.After):
		return w.verdict(i, errNoKey)
	}
	moved := c.Op == connectors.Update && p.tg.hasKey(c.Before) && slices.ContainsFunc(p.tg.key, func(k int) bool { return !c.Before[k].Equal(c.After[k]) })
	before := p.find(c.After)
	switch {
	case p.tg.hasInvalid(c.After):
	case p.tg.whole(c.After) && !moved:
		p.put(i, c.After, &effect{index: i, row: c.After})
		return p.settle(ctx, w)
	case !moved && before != nil && before.row != nil:
		merged := slices.Clone(before.row)
		for k, v := range c.After {
			if !v.IsAbsent() {
				merged[k] = v
			}
		}
		p.put(i, c.After, &effect{index: i, row: merged})
		return p.settle(ctx, w)
	}
	if moved {
		return w.single(ctx, p, i, c.After, func() error { return w.move(ctx, p.tg, c) })
	}
	return w.single(ctx, p, i, c.After, func() error { return w.merge(ctx, p.tg, c.After) })
}

// settle flushes at once where the order of rows matters.
func (p *batchPlan) settle(ctx context.Context, w *writer) error {
	if p.tg.folds {
		return nil
	}
	if last := len(p.effects) - 1; last > 0 && (p.effects[last].row == nil) != (p.effects[0].row == nil) {
		tail := p.effects[last]
		p.effects = p.effects[:last]
		if err := w.flush(ctx, p); err != nil {
			return err
		}
		p.effects = append(p.effects, tail)
	}
	return nil
}

func (p *batchPlan) keyOf(row []connectors.Value) []byte {
	p.key = p.key[:0]
	for _, k := range p.tg.key {
		p.key = append(row[k].AppendText(p.key), 0)
	}
	return p.key
}

func (p *batchPlan) find(row []connectors.Value) *effect {
	if !p.tg.folds {
		return nil
	}
	return p.byKey[string(p.keyOf(row))]
}

// put notes the effect of a key. Where rows may be taken in any order, only the last one of a key stays.
func (p *batchPlan) put(i int, row []connectors.Value, e *effect) {
	if !p.tg.folds {
		p.effects = append(p.effects, e)
		return
	}
	key := p.keyOf(row)
	if old := p.byKey[string(key)]; old != nil {
		*old = *e
		return
	}
	if p.byKey == nil {
		p.byKey = map[string]*effect{}
	}
	p.byKey[string(key)] = e
	p.effects = append(p.effects, e)
}

func (t *target) whole(row []connectors.Value) bool {
	for _, c := range t.columns {
		if c >= len(row) || row[c].IsAbsent() {
			return false
		}
	}
	return len(t.columns) > 0
}

func (t *target) hasKey(row []connectors.Value) bool {
	if row == nil {
		return false
	}
	return !slices.ContainsFunc(t.key, func(k int) bool { return row[k].IsNull() || row[k].IsAbsent() })
}

// verdict notes a refused row and passes every other error on.
func (w *writer) verdict(i int, err error) error {
	if isRefusal(err) {
		w.refused = append(w.refused, connectors.RowError{Index: i, Err: describe(err)})
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply change %d: %w", i, err)
	}
	return nil
}

// describe takes the row's values out of an error: the server quotes them.
func describe(err error) error {
	var e *driver.MySQLError
	if !errors.As(err, &e) {
		return err
	}
	text := e.Message
	if e.Number == errSyntax { // the statement from there on, with quotes of its own
		text, _, _ = strings.Cut(text, " near '")
	}
	var out strings.Builder
	for {
		a := strings.IndexByte(text, '\'')
		if a < 0 {
			break
		}
		b := strings.IndexByte(text[a+1:], '\'')
		if b < 0 {
			break
		}
		inside := text[a+1 : a+1+b]
		out.WriteString(text[:a])
		if before := strings.ToLower(text[:a]); strings.HasSuffix(before, "column ") || strings.HasSuffix(before, "key ") || strings.HasSuffix(before, "field ") || strings.HasSuffix(before, "constraint ") {
			out.WriteString("'" + inside + "'")
		} else {
			out.WriteString("…")
		}
		text = text[a+2+b:]
	}
	out.WriteString(text)
	return fmt.Errorf("error %d: %s", e.Number, out.String())
}

// single applies one change after what was collected before it. A row with an invalid value of an enum has to be let in by
// a session that is not strict; nothing else of it is looked at more kindly than the source did.
func (w *writer) single(ctx context.Context, p *batchPlan, i int, row []connectors.Value, do func() error) error {
	if err := w.flush(ctx, p); err != nil {
		return err
	}
	if err := w.sink.mode(ctx, row != nil && p.tg.hasInvalid(row)); err != nil {
		return err
	}
	err := do()
	if back := w.sink.mode(ctx, false); back != nil {
		return back
	}
	return w.verdict(i, err)
}

// flush applies what was collected: first what goes, then what comes.
func (w *writer) flush(ctx context.Context, p *batchPlan) error {
	var gone, come []*effect
	for _, e := range p.effects {
		if e.row == nil {
			gone = append(gone, e)
		} else {
			come = append(come, e)
		}
	}
	p.effects = p.effects[:0]
	clear(p.byKey)
	if err := w.parts(ctx, p.tg, gone, w.remove); err != nil {
		return err
	}
	return w.parts(ctx, p.tg, come, w.insert)
}

// parts runs one statement for as many effects as fit, and for ever fewer of them when rows are refused.
func (w *writer) parts(ctx context.Context, tg *target, list []*effect, run func(context.Context, *target, []*effect) (int, error)) error {
	for len(list) > 0 {
		n, err := run(ctx, tg, list[:min(len(list), maxStatementRow)])
		switch {
		case isRefusal(err) && n > 1:
			half := n / 2
			if err := w.parts(ctx, tg, list[:half], run); err != nil {
				return err
			}
			if err := w.parts(ctx, tg, list[half:n], run); err != nil {
				return err
			}
		case err != nil:
			if err := w.verdict(list[0].index, err); err != nil {
				return err
			}
		}
		list = list[max(n, 1):]
	}
	return nil
}

// insert stores whole rows. It returns how many it took into its statement.
func (w *writer) insert(ctx context.Context, tg *target, list []*effect) (int, error) {
	sql := append(w.sink.buffer[:0], tg.insert...)
	n := 0
	for _, e := range list {
		if n > 0 && len(sql) > w.sink.packet {
			break
		}
		if n > 0 {
			sql = append(sql, ',')
		}
		sql = append(sql, '(')
		for k, c := range tg.columns {
			if k > 0 {
				sql = append(sql, ',')
			}
			var err error
			if sql, err = appendSQL(sql, e.row[c], &tg.types[c]); err != nil {
				return len(list), fmt.Errorf("column %s: %w", tg.source.Columns[c].Name, err)
			}
		}
		if tg.soft {
			sql = append(sql, ",0"...)
		}
		sql = append(sql, ')')
		n++
	}
	sql = append(sql, tg.update...)
	w.sink.buffer = sql
	return n, w.sink.exec(ctx, string(sql))
}

// remove deletes or marks rows by key.
func (w *writer) remove(ctx context.Context, tg *target, list []*effect) (int, error) {
	sql := append(w.sink.buffer[:0], tg.gone()...)
	sql = append(sql, " WHERE "...)
	n := 0
	for _, e := range list {
		if n > 0 && len(sql) > w.sink.packet {
			break
		}
		if n > 0 {
			sql = append(sql, " OR "...)
		}
		var err error
		if sql, err = tg.appendKey(sql, e.old); err != nil {
			return len(list), err
		}
		n++
	}
	w.sink.buffer = sql
	return n, w.sink.exec(ctx, string(sql))
}

func (t *target) gone() string {
	if t.soft {
		return "UPDATE " + t.name.ident() + " SET " + ident(softColumn) + " = 1"
	}
	return "DELETE FROM " + t.name.ident()
}

// appendKey appends the condition for the row with a key.
func (t *target) appendKey(sql []byte, row []connectors.Value) ([]byte, error) {
	sql = append(sql, '(')
	for i, k := range t.key {
		if i > 0 {
			sql = append(sql, " AND "...)
		}
		sql = append(append(sql, ident(t.source.Columns[k].Name)...), " = "...)
		var err error
		if sql, err = appendSQL(sql, row[k], &t.types[k]); err != nil {
			return sql, err
		}
	}
	return append(sql, ')'), nil
}

// appendSets appends the assignments of what a row carries.
func (t *target) appendSets(sql []byte, row []connectors.Value) ([]byte, error) {
	first := true
	for _, c := range t.columns {
		if row[c].IsAbsent() {
			continue
		}
		if !first {
			sql = append(sql, ", "...)
		}
		first = false
		sql = append(append(sql, ident(t.source.Columns[c].Name)...), " = "...)
		var err error
		if sql, err = appendSQL(sql, row[c], &t.types[c]); err != nil {
			return sql, err
		}
	}
	if t.soft && !first {
		sql = append(sql, ", "+ident(softColumn)+" = 0"...)
	}
	return sql, nil
}

// merge updates the row of a key with what a change carries, and inserts that if there is no such row.
func (w *writer) merge(ctx context.Context, tg *target, row []connectors.Value) error {
	n, err := w.set(ctx, tg, row, row)
	if err != nil || n > 0 {
		return err
	}
	return w.add(ctx, tg, row, false)
}

// set updates the row that has the key of old.
func (w *writer) set(ctx context.Context, tg *target, old, row []connectors.Value) (int64, error) {
	sql := []byte("UPDATE " + tg.name.ident() + " SET ")
	sql, err := tg.appendSets(sql, row)
	if err != nil {
		return 0, err
	}
	if sql, err = tg.appendKey(append(sql, " WHERE "...), old); err != nil {
		return 0, err
	}
	return w.sink.touch(ctx, string(sql))
}

// move gives a row another key. A row that has the new key already makes room only if the old one is there: when the
// change is applied a second time, the row with the new key is the moved one. So it is where the collation takes both for
// equal ('alpha', 'ALPHA').
func (w *writer) move(ctx context.Context, tg *target, c *connectors.Change) error {
	where, err := tg.appendKey(nil, c.Before)
	if err != nil {
		return err
	}
	var found int
	if err := w.sink.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+tg.name.ident()+" WHERE "+string(where)).Scan(&found); err != nil {
		return err
	}
	if found == 0 {
		return w.merge(ctx, tg, c.After)
	}
	old := string(where)
	if where, err = tg.appendKey(nil, c.After); err != nil {
		return err
	}
	where = append(where, " AND NOT "+old...)
	if err := w.sink.exec(ctx, "DELETE FROM "+tg.name.ident()+" WHERE "+string(where)); err != nil {
		return err
	}
	_, err = w.set(ctx, tg, c.Before, c.After)
	return err
}

// add inserts what a row carries.
func (w *writer) add(ctx context.Context, tg *target, row []connectors.Value, gone bool) error {
	if row == nil {
		return errNoOldRow
	}
	var names, absent []string
	var values []byte
	for _, c := range tg.columns {
		if row[c].IsAbsent() {
			absent = append(absent, tg.source.Columns[c].Name)
			continue
		}
		if len(names) > 0 {
			values = append(values, ", "...)
		}
		names = append(names, ident(tg.source.Columns[c].Name))
		var err error
		if values, err = appendSQL(values, row[c], &tg.types[c]); err != nil {
			return err
		}
	}
	if tg.mark && len(absent) > 0 && !gone {
		list, err := json.Marshal(absent)
		if err != nil {
			return err
		}
		names = append(names, ident(unchangedColumn))
		values = appendString(append(values, ", "...), list)
	}
	if gone {
		names = append(names, ident(softColumn))
		values = append(values, ", 1"...)
	}
	return w.sink.exec(ctx, "INSERT INTO "+tg.name.ident()+" ("+strings.Join(names, ", ")+") VALUES ("+string(values)+")")
}

// byValue updates or removes one row of a table without a key that holds exactly the old values.
func (w *writer) byValue(ctx context.Context, tg *target, c *connectors.Change) error {
	if c.Before == nil {
		return errNoOldRow
	}
	sql := []byte(tg.gone())
	var err error
	if c.Op == connectors.Update {
		if sql, err = tg.appendSets([]byte("UPDATE "+tg.name.ident()+" SET "), c.After); err != nil {
			return err
		}
	}
	word := " WHERE "
	for _, k := range tg.columns {
		if c.Before[k].IsAbsent() {
			continue
		}
		sql = append(sql, word...)
		word = " AND "
		if sql, err = appendEquals(sql, ident(tg.source.Columns[k].Name), c.Before[k], &tg.types[k]); err != nil {
			return err
		}
	}
	if word == " WHERE " {
		return errNoOldRow
	}
	if tg.soft {
		sql = append(sql, " AND "+ident(softColumn)+" = 0"...)
	}
	return w.sink.exec(ctx, string(append(sql, " LIMIT 1"...)))
}

// sorted returns the refused rows in the order of the batch.
func (w *writer) sorted() []connectors.RowError {
	slices.SortFunc(w.refused, func(a, b connectors.RowError) int { return a.Index - b.Index })
	return slices.CompactFunc(w.refused, func(a, b connectors.RowError) bool { return a.Index == b.Index })
}
