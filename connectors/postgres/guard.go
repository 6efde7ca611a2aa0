package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// releaseTime is how long the server may take to notice that nobody reads from the slot any more.
const releaseTime = 30 * time.Second

// guard looks after the slot.
type guard struct{ config SourceConfig }

func guardSource(decode connectors.Decode) (connectors.Guard, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return guard{config}, nil
}

func (g guard) connect(ctx context.Context, env connectors.Env, f func(c SourceConfig, conn *pgx.Conn) error) error {
	config := g.config.named(env.Name)
	dial, err := newDialer(config, env.Name)
	if err != nil {
		return err
	}
	c := &catalog{dial: dial, config: &config, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
	defer c.close(context.WithoutCancel(ctx))
	return c.do(ctx, func(conn *pgx.Conn) error { return f(config, conn) })
}

// Retained counts from the slot's restart, which is what the server cannot remove from its disk.
func (g guard) Retained(ctx context.Context, env connectors.Env) (bytes int64, err error) {
	err = g.connect(ctx, env, func(c SourceConfig, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, `SELECT coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::int8
FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database()`, c.Slot).Scan(&bytes)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ask how much WAL slot %q keeps: %w", g.config.named(env.Name).Slot, err)
	}
	return max(0, bytes), nil
}

// Release drops the slot.
func (g guard) Release(ctx context.Context, env connectors.Env) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	return g.connect(ctx, env, func(c SourceConfig, conn *pgx.Conn) error {
		srv, err := loadServer(ctx, conn)
		if err != nil {
			return err
		}
		s, err := loadSlot(ctx, conn, c.Slot)
		if err == nil {
			err = s.foreign(c.Slot, srv)
		}
		if err != nil || !s.exists {
			return err
		}
		for {
			_, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", c.Slot)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "55006" { // it is still in use
				if err != nil {
					return fmt.Errorf("drop slot %q: %w", c.Slot, err)
				}
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("drop slot %q: %w", c.Slot, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}
