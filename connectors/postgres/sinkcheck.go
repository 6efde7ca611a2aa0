package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// checkSink is what Connector offers for check --connect.
func checkSink(decode connectors.Decode) (connectors.Check, error) {
	config := DefaultSinkConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) ([]connectors.Finding, error) {
		conn, err := config.connect(ctx, env.Name)
		if err != nil {
			return nil, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		c := sinkCheck{config: config, conn: conn}
		for _, look := range []func(context.Context) error{c.server, c.rights, c.offsets, c.tables} {
			if err := look(ctx); err != nil {
				return c.findings, err
			}
		}
		return c.findings, nil
	}, nil
}

// sinkCheck looks at a target without changing it.
type sinkCheck struct {
	config   SinkConfig
	conn     *pgx.Conn
	findings []connectors.Finding
}

func (c *sinkCheck) add(severity connectors.Severity, subject, problem, remedy string) {
	c.findings = append(c.findings, connectors.Finding{Severity: severity, Subject: subject, Problem: problem, Remedy: remedy})
}

func (c *sinkCheck) server(ctx context.Context) error {
	var version int
	var standby bool
	var readOnly, encoding string
	err := c.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('default_transaction_read_only'),
		current_setting('server_encoding')`).Scan(&version, &standby, &readOnly, &encoding)
	switch {
	case err != nil:
		return fmt.Errorf("read server settings: %w", err)
	case version < 120000:
		c.add(connectors.Warning, "server", fmt.Sprintf("version %d is older than any that was tried", version/10000), "use PostgreSQL 12 or later")
	}
	if standby {
		c.add(connectors.Fatal, "server", "it is a standby and takes no writes", "connect to the primary, or add target_session_attrs=read-write to the dsn")
	} else if readOnly == "on" {
		c.add(connectors.Fatal, "default_transaction_read_only", "transactions are read only for this user", "ALTER ROLE CURRENT_USER SET default_transaction_read_only = off")
	}
	if encoding != "UTF8" {
		c.add(connectors.Warning, "server_encoding", "characters outside of "+encoding+" are refused and go to the dead letters", "use a database with ENCODING UTF8")
	}
	return nil
}

// rights asks for what creating schemas and temporary tables needs.
func (c *sinkCheck) rights(ctx context.Context) error {
	var user, database string
	var create, temporary bool
	err := c.conn.QueryRow(ctx, `SELECT current_user::text, current_database()::text, has_database_privilege(current_database(), 'CREATE'),
		has_database_privilege(current_database(), 'TEMPORARY')`).Scan(&user, &database, &create, &temporary)
	if err != nil {
		return fmt.Errorf("read rights: %w", err)
	}
	if !temporary {
		c.add(connectors.Fatal, "database "+database, "user "+user+" may not create temporary tables, which rows pass on their way",
			fmt.Sprintf("GRANT TEMPORARY ON DATABASE %s TO %s", quote(database), quote(user)))
	}
	if !create && c.creates() {
		c.add(connectors.Warning, "database "+database, "user "+user+" may not create schemas: those of the targets must exist",
			fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", quote(database), quote(user)))
	}
	t, _ := parseTemplate(c.config.Table)
	for schema := range map[string]bool{t.schema: true, c.config.Offsets: true} {
		if schema == "" || strings.Contains(schema, "{") {
			continue
		}
		var usable bool
		err := c.conn.QueryRow(ctx, `SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1`, schema).Scan(&usable)
		switch {
		case err == pgx.ErrNoRows && !create:
			c.add(connectors.Fatal, "schema "+schema, "it does not exist and user "+user+" may not create it",
				fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", quote(schema), quote(user)))
		case err == pgx.ErrNoRows:
		case err != nil:
			return fmt.Errorf("read rights on schema %s: %w", schema, err)
		case !usable && (schema == c.config.Offsets || c.creates()):
			c.add(connectors.Warning, "schema "+schema, "user "+user+" may not create tables there: those that are missing must be created by someone else",
				fmt.Sprintf("GRANT CREATE ON SCHEMA %s TO %s", quote(schema), quote(user)))
		}
	}
	return nil
}

func (c *sinkCheck) creates() bool {
	return c.config.Schema.Add == connectors.Evolve || c.config.Schema.Add == connectors.Lenient
}

func (c *sinkCheck) offsets(ctx context.Context) error {
	var columns int
	var writable bool
	name := qualified(c.config.Offsets, offsetsTable)
	err := c.conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE attname IN ('sink', 'stream', 'position', 'epoch', 'updated_at')),
		coalesce(bool_and(has_table_privilege(attrelid, 'SELECT') AND has_table_privilege(attrelid, 'INSERT') AND has_table_privilege(attrelid, 'UPDATE')), true)
		FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0`, name).Scan(&columns, &writable)
	switch {
	case err != nil:
		return fmt.Errorf("look at %s: %w", name, err)
	case columns != 0 && columns != 5:
		c.add(connectors.Fatal, name, "a table of that name exists and is not ours", "set offsets_schema to another schema")
	case !writable:
		c.add(connectors.Fatal, name, "the user may not read and write it", "GRANT SELECT, INSERT, UPDATE ON "+name+" TO CURRENT_USER")
	}
	return nil
}

// tables looks at what stands where a fixed target is configured. Where the name comes from the source, the source's
// tables are not known here, and the first write tells.
func (c *sinkCheck) tables(ctx context.Context) error {
	t, _ := parseTemplate(c.config.Table)
	if strings.Contains(t.schema+t.table, "{") {
		return nil
	}
	schema, name := t.expand(&connectors.Table{})
	var kind string
	var writable bool
	err := c.conn.QueryRow(ctx, `SELECT relkind::text, has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = $1 AND relname = $2`, schema, name).Scan(&kind, &writable)
	switch {
	case err == pgx.ErrNoRows:
		if !c.creates() {
			c.add(connectors.Fatal, "table "+schema+"."+name, "it does not exist and schema is "+string(c.config.Schema.Add), "create it, or set schema: evolve")
		}
		return nil
	case err != nil:
		return fmt.Errorf("look at table %s.%s: %w", schema, name, err)
	case !strings.Contains("rpvf", kind):
		c.add(connectors.Fatal, "table "+schema+"."+name, "it is no table that rows can be written into", "set table to another name")
	case !writable:
		c.add(connectors.Fatal, "table "+schema+"."+name, "the user may not write it", "GRANT SELECT, INSERT, UPDATE, DELETE ON "+qualified(schema, name)+" TO CURRENT_USER")
	}
	return nil
}
