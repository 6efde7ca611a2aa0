package mysql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// statement handles what is neither beginning nor end of a transaction: DDL, and changes that were logged as statements.
// DDL of tables that nobody wants is not even understood.
func (s *stream) statement(ctx context.Context, q *queryEvent, e *event, end place) (bool, error) {
	if target, ok := q.changes(); ok {
		if s.schemas.catalog.config.spec(target) != nil {
			return false, fmt.Errorf("table %s: a change at %s was logged as a statement, not as rows; set binlog_format = ROW in the session that made it, and take a fresh snapshot with: trunkline resync %s: %w",
				target.full(), s.at, s.source.env.Name, connectors.ErrFatal)
		}
		if s.inTx && !s.tx.standalone {
			return false, nil // its end comes with an event of its own
		}
		return s.commit(end), nil
	}
	if d := parseDDL(q.text, q.schema, q.ansi, q.raw); d != nil && !q.failed {
		if err := s.ddl(ctx, d, q, e); err != nil {
			return false, err
		}
	}
	return s.commit(end), nil
}

// ddl follows one statement. The definition that the statement leads to is compared with what the catalog says now: where
// both have the same columns, what the statement does not tell is taken from the catalog, which may be ahead.
func (s *stream) ddl(ctx context.Context, d *ddl, q *queryEvent, e *event) error {
	switch d.verb {
	case "truncate":
		s.emptied(d.table, e)
		return nil
	case "drop":
		for _, n := range d.drops {
			s.schemas.drop(n)
			delete(s.pos.Altered, n)
		}
		return nil
	case "rename":
		return s.renames(ctx, d.renames)
	}
	if s.schemas.catalog.config.spec(d.table) != nil {
		if d.replace {
			s.emptied(d.table, e)
		}
		var before *definition
		if t := s.schemas.tables[d.table]; t != nil {
			before = t.shape.def
		}
		// Rows of an earlier table of the name may stand in the targets.
		taken := d.verb == "create" && before == nil && slices.Contains(s.pos.Tables, d.table)
		if err := s.redefine(ctx, d, q); err != nil {
			return err
		}
		if taken {
			s.emptied(d.table, e)
		}
		s.rewritten(d, before)
		if err := s.askAltered(ctx, d.table); err != nil {
			return err
		}
	}
	return s.renames(ctx, d.renames)
}

// redefine gives a table the definition that a CREATE or an ALTER leads to.
func (s *stream) redefine(ctx context.Context, d *ddl, q *queryEvent) error {
	old := &definition{Charset: s.schemas.databaseCharset(ctx, d.table.schema)}
	known := s.schemas.tables[d.table]
	if known != nil && (d.verb == "alter" || d.exists && !d.replace) {
		if d.verb == "create" {
			return nil
		}
		old = known.shape.def
	}
	var def *definition
	var guessed map[string]bool
	ok := !d.opaque
	switch {
	case d.like.name != "":
		if t := s.schemas.tables[d.like]; t != nil {
			like := *t.shape.def
			def = &like
		} else {
			ok = false
		}
	case d.verb == "alter" && known == nil:
		ok = false
	case ok:
		def, guessed, ok = d.apply(dialect{s.source.server.maria, s.source.server.number}, old)
	}
	if ok && d.verb == "create" {
		def.Origin = s.at.number()
	}
	now, err := s.schemas.catalog.table(ctx, d.table)
	if err != nil {
		return err
	}
	switch {
	case ok && (now == nil || !def.alike(now, guessed)): // later statements have changed it again
	case ok:
		def = def.completed(now, d.keys())
	case now != nil:
		def = now
	default:
		s.source.env.Logger.Warn("statement not understood", "source", s.source.env.Name, "table", d.table.full(), "position", s.at.String())
		return nil // if rows come, the table map is compared with what is known, and the table stops if it does not fit
	}
	if err := s.schemas.follow(d.table, def); err != nil {
		return fmt.Errorf("follow the statement at %s: %w", s.at, err)
	}
	s.source.env.Logger.Info("table changed", "source", s.source.env.Name, "table", d.table.full(), "position", s.at.String())
	return nil
}

// renames moves definitions from name to name, in the order of the statement.
func (s *stream) renames(ctx context.Context, list [][2]tableName) error {
	for _, r := range list {
		from := s.schemas.tables[r[0]]
		s.schemas.drop(r[0])
		if s.schemas.catalog.config.spec(r[1]) == nil {
			delete(s.pos.Altered, r[0])
			continue
		}
		def := (*definition)(nil)
		if from != nil {
			moved := *from.shape.def
			if moved.Origin == 0 { // the table that had the name up to now is another one
				moved.Origin = s.at.number()
			}
			def = &moved
		} else {
			now, err := s.schemas.catalog.table(ctx, r[1])
			if err != nil {
				return err
			}
			def = now
		}
		if def != nil {
			if err := s.schemas.set(r[1], def); err != nil {
				return err
			}
		}
		delete(s.pos.Altered, r[0])
		s.alter(r[1], "RENAME of "+r[0].full(), true)
		if err := s.askAltered(ctx, r[1]); err != nil {
			return err
		}
	}
	return nil
}

// emptied adds a truncate of a table that is wanted.
func (s *stream) emptied(n tableName, e *event) {
	t := s.schemas.tables[n]
	if t == nil {
		return
	}
	if p, ok := s.pos.Skip[n]; ok && s.at.before(p) {
		return
	}
	s.schemas.use(t)
	s.tx.start, s.tx.server = s.at, e.server
	c := s.rows.add(connectors.Truncate, t.shape.table, time.Unix(int64(e.time), 0).UTC())
	s.stamp(c, 0, &stamped{})
}

// changes reports the table that a statement changes rows of, if it is such a statement.
func (q *queryEvent) changes() (tableName, bool) {
	first, _ := q.word()
	switch first {
	case "INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD":
	default:
		return tableName{}, false
	}
	p := &parser{tokens: tokenize(q.text, q.ansi, q.raw), schema: q.schema}
	verb := p.next()
	for len(p.tokens) > 0 {
		switch {
		case verb.is("UPDATE") && p.peek().is("LOW_PRIORITY", "IGNORE"):
			p.next()
		case verb.is("UPDATE"), p.accept("INTO", "TABLE"), p.accept("INTO"), p.accept("FROM"):
			return p.tableName(), true
		case verb.is("INSERT", "REPLACE") && !p.peek().is("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE"):
			return p.tableName(), true
		default:
			p.next()
		}
	}
	return tableName{}, true
}
