package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// ddlPrefix is the prefix of the logical messages in which event triggers put statements that change the schema.
const ddlPrefix = "trunkline.ddl"

// messagesVersion is the first server whose pgoutput can send logical messages.
const messagesVersion = 140000

// ddlStatements make the event triggers of ddl: capture. What a statement did stands in its own transaction, between
// the changes of rows before and after it. A fault in here must not keep the statement from being carried out, so it is a
// warning. Temporary objects and publications are left out. The empty message at the end keeps the order: the server files a
// message under the place where the next record begins, which a row that follows at once has too.
var ddlStatements = []string{
	`CREATE SCHEMA IF NOT EXISTS _trunkline`,
	`CREATE OR REPLACE FUNCTION _trunkline.ddl() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ DECLARE objects jsonb; BEGIN ` +
		`IF tg_event = 'sql_drop' THEN SELECT jsonb_agg(jsonb_build_object('type', object_type, 'name', object_identity)) INTO objects FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary AND object_type !~ '^publication' AND (original OR object_type = 'table column'); ` +
		`ELSE SELECT jsonb_agg(jsonb_build_object('type', object_type, 'name', object_identity)) INTO objects FROM pg_event_trigger_ddl_commands() WHERE coalesce(schema_name, '') !~ '^pg_temp' AND object_type !~ '^publication'; END IF; ` +
		`IF objects IS NOT NULL THEN PERFORM pg_logical_emit_message(true, '` + ddlPrefix + `', convert_to(jsonb_build_object('tag', tg_tag, 'event', tg_event, 'objects', objects, 'statement', current_query(), 'user', session_user, 'search_path', current_setting('search_path'))::text, 'UTF8')); PERFORM pg_logical_emit_message(true, 'trunkline', ''); END IF; ` +
		`EXCEPTION WHEN OTHERS THEN RAISE WARNING 'trunkline did not note a change of the schema: %', sqlerrm; END $$`,
	`DROP EVENT TRIGGER IF EXISTS _trunkline_ddl`,
	`DROP EVENT TRIGGER IF EXISTS _trunkline_drop`,
	`CREATE EVENT TRIGGER _trunkline_ddl ON ddl_command_end EXECUTE FUNCTION _trunkline.ddl()`,
	`CREATE EVENT TRIGGER _trunkline_drop ON sql_drop EXECUTE FUNCTION _trunkline.ddl()`,
}

// The event triggers that ddlStatements make.
const (
	ddlTrigger  = "_trunkline_ddl"
	dropTrigger = "_trunkline_drop"
)

// ddlScript is what a superuser has to run where we may not.
func ddlScript() string { return strings.Join(ddlStatements, "; ") + ";" }

// hasTriggers reports whether both event triggers are there and fire.
func hasTriggers(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var there bool
	err := conn.QueryRow(ctx, `SELECT count(*) = 2 FROM pg_catalog.pg_event_trigger WHERE evtname IN ('_trunkline_ddl', '_trunkline_drop') AND evtenabled <> 'D'`).Scan(&there)
	if err != nil {
		return false, fmt.Errorf("look for event triggers: %w", err)
	}
	return there, nil
}

// ensureTriggers makes the event triggers where they are missing.
func ensureTriggers(ctx context.Context, conn *pgx.Conn, version int) error {
	if version < messagesVersion {
		return fmt.Errorf("ddl: capture needs PostgreSQL 14 or later; set ddl: ignore: %w", connectors.ErrFatal)
	}
	there, err := hasTriggers(ctx, conn)
	if err != nil || there {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range ddlStatements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return fmt.Errorf("ddl: capture needs event triggers, which only a superuser can make (%s); let one run: %s: %w", pg.Message, ddlScript(), connectors.ErrFatal)
	}
	if err != nil {
		return fmt.Errorf("create event triggers: %w", err)
	}
	return nil
}

// logicalMessage hands over a message of an event trigger. Those of others, and those outside of transactions, are not ours.
//
//	M  message           flags:1 lsn:8 prefix\0 length:4 content
func (s *stream) logicalMessage(body []byte, at lsn) (bool, error) {
	c := cursor{b: body}
	flags := c.u8()
	c.take(8)
	prefix := c.text()
	content := c.take(int(c.u32()))
	if c.bad {
		return false, malformed(msgMessage)
	}
	if !s.ddl || flags&1 == 0 || prefix != ddlPrefix {
		return false, nil
	}
	if len(content) > s.limits.RowBytes {
		return false, fmt.Errorf("a statement of %d bytes is larger than the limit of %d bytes; raise max_record_bytes, or set ddl: ignore: %w", len(content), s.limits.RowBytes, connectors.ErrFatal)
	}
	change := s.rows.add(connectors.Message, nil, s.tx.time)
	row := s.rows.image(2)
	row[0] = connectors.DataValue(connectors.Text, s.rows.keep([]byte(prefix)))
	row[1] = connectors.DataValue(connectors.Bytes, s.rows.keep(content))
	change.After = row
	change.Origin, change.Position = s.stampOf(at)
	return s.rows.full(s.limits), nil
}
