package clickhouse

import (
	"context"
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// check looks whether the server answers, and what its version lacks.
func check(ctx context.Context, c *SinkConfig, _ connectors.Env) (findings []connectors.Finding, err error) {
	conn, database, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	version, err := conn.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("open clickhouse: %w", err)
	}
	var there uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.databases WHERE name = "+literal(database)).Scan(&there); err != nil {
		return nil, fmt.Errorf("look for database %q: %w", database, err)
	}
	if there == 0 {
		findings = append(findings, connectors.Finding{Severity: connectors.Fatal, Subject: "database " + database, Problem: "it is not there",
			Remedy: "CREATE DATABASE " + quote(database)})
	}
	if v := serverOf(version.Version.Major, version.Version.Minor); !v.modern || !v.deleted {
		findings = append(findings, connectors.Finding{Severity: connectors.Warning, Subject: "version",
			Problem: fmt.Sprintf("ClickHouse %d.%d: before 22.1 days and times become String and arrays their JSON; before 23.2 a query has to leave deleted rows out itself",
				version.Version.Major, version.Version.Minor),
			Remedy: "SELECT … FINAL WHERE " + deletedColumn + " = 0"})
	}
	return findings, nil
}
