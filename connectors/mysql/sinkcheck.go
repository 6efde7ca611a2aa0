package mysql

import (
	"context"
	"errors"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

func checkSink(decode connectors.Decode) (connectors.Check, error) {
	config := DefaultSinkConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) ([]connectors.Finding, error) {
		return lookAtSink(ctx, config)
	}, nil
}

// lookAtSink looks at the server and at our rights there, and changes nothing.
func lookAtSink(ctx context.Context, config SinkConfig) ([]connectors.Finding, error) {
	e, err := config.address().endpoint()
	if err != nil {
		return nil, err
	}
	e.database = "" // which may be one that is still to be created
	db, err := e.pool()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	k := &checker{db: db}
	vars, err := variables(ctx, db, "version", "read_only", "max_allowed_packet", "innodb_strict_mode")
	if err != nil {
		if err = settle(err); errors.Is(err, connectors.ErrFatal) {
			k.fatal("server", describe(err).Error(), "correct user and password, or grant the right")
			return k.findings, nil
		}
		return nil, err
	}
	k.findings = append(k.findings, connectors.Finding{Severity: connectors.Info, Subject: "server", Problem: vars["version"]})
	if strings.EqualFold(vars["read_only"], "ON") {
		k.warn("read_only", "is on: only users with a right of their own may write", "write to the primary, or SET GLOBAL read_only = OFF")
	}
	var n int
	for _, query := range []string{"SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN ('INSERT', 'CREATE', 'UPDATE', 'DELETE')",
		"SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE PRIVILEGE_TYPE IN ('INSERT', 'CREATE', 'UPDATE', 'DELETE')"} {
		if n > 0 {
			break
		}
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		k.fatal("our user", "may not write: it has no right to INSERT, UPDATE, DELETE or CREATE", "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON "+ident(config.Offsets)+".* TO our user")
	}
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", config.Offsets).Scan(&n)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		k.warn("database "+config.Offsets, "does not exist, or our user may not see it; it would be created", "CREATE DATABASE "+ident(config.Offsets))
	}
	return k.findings, nil
}
