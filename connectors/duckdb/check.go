//go:build duckdb

package duckdb

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/trunkline/trunkline/connectors"
)

// check opens the file if it is there. If it is not, the sink will make it.
func check(ctx context.Context, c *SinkConfig, _ connectors.Env) (out []connectors.Finding, err error) {
	if _, err := os.Stat(c.Path); errors.Is(err, fs.ErrNotExist) {
		return []connectors.Finding{{Severity: connectors.Info, Subject: c.Path, Problem: "the file does not exist and will be made"}}, nil
	}
	db, err := connect(ctx, c, true)
	if err != nil {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: c.Path, Problem: err.Error(), Remedy: "correct path, or end the process that has the file open"}}, nil
	}
	defer func() { err = errors.Join(err, db.close()) }()
	if _, err := db.number(ctx, "SELECT count(*) FROM duckdb_tables()"); err != nil {
		return nil, err
	}
	return nil, nil
}
