package postgres

import (
	"context"
	"errors"
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

// foreseeSink says which tables the sink would make.
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
		names := []string{qualified(config.Offsets, offsetsTable)}
		shown := []string{config.Offsets + "." + offsetsTable}
		for _, table := range tables {
			schema, name := t.expand(table)
			names, shown = append(names, qualified(schema, name)), append(shown, schema+"."+name)
		}
		var out []connectors.Effect
		for i, name := range names {
			e := connectors.Effect{Kind: "table", Name: shown[i], Action: connectors.Keep}
			var there bool
			err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&there)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return nil, fmt.Errorf("look at table %s: %w", shown[i], err)
			}
			if !there {
				e.Action = connectors.Create
			}
			out = append(out, e)
		}
		return out, nil
	}, nil
}
