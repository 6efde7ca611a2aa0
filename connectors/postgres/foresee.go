package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// foreseeSource says what opening the source would do to its slot and its publication. Mode timestamp needs neither.
func foreseeSource(decode connectors.Decode) (connectors.Foresee, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env, _ []*connectors.Table) ([]connectors.Effect, error) {
		if config.Mode == modeTimestamp || config.Snapshot == snapshotOnly {
			return nil, nil
		}
		config := config.named(env.Name)
		dial, err := newDialer(config, env.Name)
		if err != nil {
			return nil, err
		}
		c := &catalog{dial: dial, config: &config, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
		defer c.close(context.WithoutCancel(ctx))
		var out []connectors.Effect
		var pub *publication
		err = c.do(ctx, func(conn *pgx.Conn) error {
			s, err := loadSlot(ctx, conn, config.Slot)
			if err != nil {
				return err
			}
			out = append(out, s.effect(config.Slot))
			if config.DDL == ddlCapture {
				there, err := hasTriggers(ctx, conn)
				if err != nil {
					return err
				}
				e := connectors.Effect{Kind: "event trigger", Name: ddlTrigger, Action: connectors.Keep}
				if !there {
					e.Action, e.Detail = connectors.Create, "and "+dropTrigger+", with the schema _trunkline and the function that they call"
				}
				out = append(out, e)
			}
			pub, err = loadPublication(ctx, conn, config.Publication)
			return err
		})
		if err != nil {
			return nil, err
		}
		list, err := c.relations(ctx)
		if err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(r *relation) bool { problem, _ := r.problem(true); return problem != "" })
		return append(out, pub.effect(config.Publication, list)), nil
	}, nil
}

func (s *slot) effect(name string) connectors.Effect {
	e := connectors.Effect{Kind: "slot", Name: name, Action: connectors.Keep}
	switch {
	case !s.exists:
		e.Action, e.Detail = connectors.Create, "the server keeps WAL from then on, until it is read"
	case s.lost:
		e.Detail = "it was invalidated: the source will stand before a gap"
	}
	return e
}

// effect says what ensurePublication would do, in numbers of tables and the names of those that come.
func (p *publication) effect(name string, list []*relation) connectors.Effect {
	e := connectors.Effect{Kind: "publication", Name: name, Action: connectors.Keep}
	var added []string
	for _, r := range list {
		if !slices.Contains(p.tables, r.oid) {
			added = append(added, r.full())
		}
	}
	stale := 0
	for _, oid := range p.tables {
		if !slices.ContainsFunc(list, func(r *relation) bool { return r.oid == oid }) {
			stale++
		}
	}
	switch {
	case !p.exists:
		e.Action, e.Detail = connectors.Create, fmt.Sprintf("for %d tables", len(list))
	case p.all:
		e.Detail = "it is for all tables, and stays as it is"
	case len(added) > 0 && stale > 0 && p.own():
		e.Action, e.Detail = connectors.Alter, fmt.Sprintf("adds %s; takes away %d tables", strings.Join(added, ", "), stale)
	case len(added) > 0:
		e.Action, e.Detail = connectors.Alter, "adds "+strings.Join(added, ", ")
	case stale > 0 && p.own():
		e.Action, e.Detail = connectors.Alter, fmt.Sprintf("takes away %d tables", stale)
	case p.own() && !slices.Contains(strings.Fields(p.comment), filterHash(list)):
		e.Action, e.Detail = connectors.Alter, "other row filters (where)"
	}
	return e
}

// foreseeSink says which schemas and tables the sink would make, and which columns it would add.
func foreseeSink(decode connectors.Decode) (connectors.Foresee, error) {
	config := DefaultSinkConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env, tables []*connectors.Table) ([]connectors.Effect, error) {
		conn, err := config.connect(ctx, env.Name)
		if err != nil {
			return nil, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		t, err := parseTemplate(config.Table)
		if err != nil {
			return nil, err
		}
		f := sinkForesight{conn: conn, config: &config}
		if err := f.table(ctx, config.Offsets, offsetsTable, nil); err != nil {
			return nil, err
		}
		for _, table := range tables {
			schema, name := t.expand(table)
			if err := f.table(ctx, schema, name, table); err != nil {
				return nil, err
			}
		}
		return f.effects, nil
	}, nil
}

// sinkForesight collects what a sink would do in its database.
type sinkForesight struct {
	conn    *pgx.Conn
	config  *SinkConfig
	schemas []string // those that were looked at
	effects []connectors.Effect
}

// table looks at one table of the target. wanted is the table that it is for, nil for the one of offsets.
func (f *sinkForesight) table(ctx context.Context, schema, name string, wanted *connectors.Table) error {
	var schemaThere, there bool
	var columns []string
	err := f.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1), c.oid IS NOT NULL,
		ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
		FROM (SELECT to_regclass($2)::oid AS oid) c`, schema, qualified(schema, name)).Scan(&schemaThere, &there, &columns)
	if err != nil {
		return fmt.Errorf("look at table %s.%s: %w", schema, name, err)
	}
	e := connectors.ForeseeTable(schema+"."+name, wanted, there, f.config.Schema.Add, func(column string) bool { return slices.Contains(columns, column) })
	if !schemaThere && e.Action == connectors.Create && !slices.Contains(f.schemas, schema) {
		f.schemas = append(f.schemas, schema)
		f.effects = append(f.effects, connectors.Effect{Kind: "schema", Name: schema, Action: connectors.Create})
	}
	f.effects = append(f.effects, e)
	return nil
}
