package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// takeKeyless adds a change of a table that has no key, or that only grows. Without a key a row is known by all of its
// values alone, so a delete or an update finds one row that is equal in all of them, of twins any one but never two.
func (s *Sink) takeKeyless(ctx context.Context, n *effect, c *connectors.Change, w way) error {
	if s.config.Write == writeAppend {
		return s.takeAppend(n, c)
	}
	switch c.Op {
	case connectors.Truncate:
		if s.config.Deletes == deletesSoft {
			return s.markAll(ctx, n, w)
		}
		n.add(c, false)
		return nil
	case connectors.Delete:
		if err := s.flush(ctx, n, w); err != nil {
			return err
		}
		_, err := s.changeTwin(ctx, n.route, c.Before, nil)
		return err
	case connectors.Update:
		if err := s.flush(ctx, n, w); err != nil {
			return err
		}
		found, err := s.changeTwin(ctx, n.route, c.Before, c.After)
		if err != nil || found {
			return err
		}
	}
	n.grow1(c.After, false)
	return nil
}

// takeAppend turns a change into one more row. What an update does not carry is taken from the old image where that has
// it.
func (s *Sink) takeAppend(n *effect, c *connectors.Change) error {
	switch {
	case c.Op == connectors.Truncate:
	case c.Op == connectors.Delete:
		n.grow1(c.Before, true)
	case c.Before != nil:
		if s.config.Deletes == deletesSoft && slices.ContainsFunc(c.Table.Key, func(k int) bool {
			return !c.Before[k].IsAbsent() && !c.After[k].IsAbsent() && !c.Before[k].Equal(c.After[k])
		}) {
			n.grow1(c.Before, true) // the row of the old key ends here
		}
		n.grow1(n.merge(c.Before, c.After), false)
	default:
		n.grow1(c.After, false)
	}
	return nil
}

// markAll marks every row of a target with deletes: soft.
func (s *Sink) markAll(ctx context.Context, n *effect, w way) error {
	if err := s.flush(ctx, n, w); err != nil {
		return err
	}
	_, err := s.exec(ctx, "UPDATE "+n.route.target.sql+" SET "+softColumn+" = true WHERE NOT "+softColumn)
	return s.fault(err)
}

// grow1 adds a row that nothing is compared with.
func (n *effect) grow1(row []connectors.Value, deleted bool) {
	n.rows = append(n.rows, effectRow{row: row, kind: fresh, deleted: deleted})
}

// comparable are the types whose equality tells rows apart as exactly as their text does. All others, among them those
// that have no equality (json, xml, point), are compared as text: numeric 1.1 and 1.10 are equal and yet two values.
var comparableTypes = []uint32{16, 17, 20, 21, 23, 25, 1043, 1082, 1114, 1184, 2950}

// changeTwin removes or marks one row that equals before, or gives it the values of after.
func (s *Sink) changeTwin(ctx context.Context, r *route, before, after []connectors.Value) (found bool, err error) {
	var parameters [][]byte
	parameter := func(c *targetColumn, v connectors.Value) (string, error) {
		text, err := s.encode.appendText([]byte{}, c, v)
		if err != nil {
			return "", refusal{column: c.name, reason: err.Error()}
		}
		parameters = append(parameters, text)
		return "$" + strconv.Itoa(len(parameters)) + "::" + c.cast, nil
	}
	var conditions, changes []string
	for i, v := range before {
		if r.columns[i] < 0 || v.IsAbsent() {
			continue
		}
		c := &r.target.columns[r.columns[i]]
		if v.IsNull() {
			conditions = append(conditions, c.sql+" IS NULL")
			continue
		}
		p, err := parameter(c, v)
		if err != nil {
			return false, err
		}
		if slices.Contains(comparableTypes, c.oid) && !c.domain {
			conditions = append(conditions, c.sql+" = "+p)
		} else {
			conditions = append(conditions, c.sql+"::text = "+p+"::text")
		}
	}
	if len(conditions) == 0 {
		return false, refusal{reason: "the table has no key and the change does not carry the old row (REPLICA IDENTITY FULL in the source)"}
	}
	for i, v := range after {
		if r.columns[i] < 0 || v.IsAbsent() || r.target.columns[r.columns[i]].always {
			continue
		}
		c := &r.target.columns[r.columns[i]]
		p := "NULL"
		if !v.IsNull() {
			if p, err = parameter(c, v); err != nil {
				return false, err
			}
		}
		changes = append(changes, c.sql+" = "+p)
	}
	if r.soft >= 0 {
		conditions = append(conditions, "NOT "+softColumn)
	}
	one := fmt.Sprintf(" WHERE (tableoid, ctid) = (SELECT tableoid, ctid FROM %s WHERE %s LIMIT 1)", r.target.sql, strings.Join(conditions, " AND "))
	sql := "DELETE FROM " + r.target.sql + one
	switch {
	case after != nil && len(changes) == 0:
		return true, nil
	case after != nil:
		sql = "UPDATE " + r.target.sql + " SET " + strings.Join(changes, ", ") + one
	case r.soft >= 0:
		sql = "UPDATE " + r.target.sql + " SET " + softColumn + " = true" + one
	}
	result := s.conn.PgConn().ExecParams(ctx, sql, parameters, nil, nil, nil).Read()
	return result.CommandTag.RowsAffected() > 0, s.fault(result.Err)
}

// takeMove follows an update of the key: delete of the old one, then the row under the new one. Columns that the update
// does not carry are still in the old row of the target; then the row itself is moved.
func (s *Sink) takeMove(ctx context.Context, n *effect, c *connectors.Change, w way) error {
	row := n.merge(c.Before, c.After)
	if !slices.ContainsFunc(row, connectors.Value.IsAbsent) {
		n.add(&connectors.Change{Op: connectors.Delete, Before: c.Before}, s.config.Deletes == deletesSoft)
		n.add(&connectors.Change{Op: connectors.Update, After: row}, false)
		return nil
	}
	if err := s.flush(ctx, n, w); err != nil {
		return err
	}
	row = n.merge(c.Before, c.After) // the flush has taken the room of the first one
	r := n.route
	var parameters [][]byte
	var changes, conditions, taken []string
	for i, k := range r.key {
		column := &r.target.columns[r.columns[k]]
		for _, v := range []connectors.Value{c.After[k], c.Before[k]} {
			text, err := s.encode.appendText([]byte{}, column, v)
			if err != nil {
				return refusal{column: column.name, reason: err.Error()}
			}
			parameters = append(parameters, text)
		}
		to, from := "$"+strconv.Itoa(2*i+1)+"::"+column.cast, "$"+strconv.Itoa(2*i+2)+"::"+column.cast
		changes = append(changes, column.sql+" = "+to)
		conditions = append(conditions, "t."+column.sql+" "+r.match[i].operator+" "+from)
		taken = append(taken, "t."+column.sql+" "+r.match[i].operator+" "+to)
	}
	// In a replay the new key may be there already. The source had no such row at this point, so it goes.
	old := strings.Join(conditions, " AND ")
	for _, sql := range []string{
		"DELETE FROM " + r.target.sql + " AS t WHERE " + strings.Join(taken, " AND ") + " AND EXISTS (SELECT FROM " + r.target.sql + " AS t WHERE " + old + ")",
		"UPDATE " + r.target.sql + " AS t SET " + strings.Join(changes, ", ") + " WHERE " + old,
	} {
		if err := s.conn.PgConn().ExecParams(ctx, sql, parameters, nil, nil, nil).Read().Err; err != nil {
			return s.fault(err)
		}
	}
	n.add(&connectors.Change{Op: connectors.Update, After: row}, false)
	return nil
}
