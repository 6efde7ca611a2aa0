package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// sinkSession is what a sink's session is set to, whatever the server, the database or the role prefer.
//
//   - Values come in one text form, so the settings by which the server reads them are fixed.
//   - Statements name every schema; the search path holds nothing that a user of the database could have planted. Types
//     and operators of extensions are named with their schema too. Triggers of the target run with this path, as they
//     do under PostgreSQL's own logical replication.
//   - A writer that has vanished or stands still gives up its locks in about a minute, so that the next one gets the
//     stream; how long a statement takes or a session sleeps has no limit.
//   - The plans are those of a batch against a table that may be large and never analyzed: each row is looked up in the
//     key's index, so that the time follows the batch and not the table.
const sinkSession = `SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
SET extra_float_digits = 1;
SET xmloption = 'content';
SET lc_monetary = 'C';
SET row_security = on;
SET search_path = pg_catalog, pg_temp;
SET default_transaction_isolation = 'read committed';
SET default_transaction_deferrable = off;
SET lock_timeout = '` + lockTimeout + `';
SET idle_in_transaction_session_timeout = '` + idleTimeout + `';
SET tcp_keepalives_idle = 15;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 4;
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', 'idle_session_timeout', 'transaction_timeout');
SELECT set_config(name, '10s', false) FROM pg_settings WHERE name = 'client_connection_check_interval';
SET jit = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`

// connect opens the session that the settings describe.
func (c *SinkConfig) connect(ctx context.Context, sink string) (*pgx.Conn, error) {
	config, err := c.address().config()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", connectors.ErrFatal, err)
	}
	d := dialer{base: config, name: "trunkline " + sink}
	config.RuntimeParams["application_name"] = d.name
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // no prepared statements that a change of schema would break
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, d.fault(err)
	}
	if _, err := conn.PgConn().Exec(ctx, sinkSession).ReadAll(); err != nil {
		conn.Close(ctx)
		return nil, fmt.Errorf("set up session: %w", err)
	}
	if c.Role != roleReplica {
		return conn, nil
	}
	var refused *pgconn.PgError
	_, err = conn.Exec(ctx, "SET session_replication_role = replica")
	if err != nil && !(errors.As(err, &refused) && refused.Code == stateForbidden) {
		conn.Close(ctx)
		return nil, fmt.Errorf("set up session: %w", err)
	}
	return conn, nil
}

// isReplica reports whether a session does without foreign keys and triggers.
func isReplica(ctx context.Context, conn *pgx.Conn) (replica bool, err error) {
	err = conn.QueryRow(ctx, "SELECT current_setting('session_replication_role') = 'replica'").Scan(&replica)
	return replica, err
}
