//go:build !duckdb

package duckdb

import (
	"context"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// errMissing says what this program lacks.
var errMissing = fmt.Errorf("this binary was built without DuckDB: build with -tags duckdb (go build -tags duckdb ./cmd/trunkline, which needs cgo): %w", connectors.ErrFatal)

func open(context.Context, *SinkConfig, connectors.Env) (connectors.Sink, error) {
	return nil, errMissing
}

func check(context.Context, *SinkConfig, connectors.Env) ([]connectors.Finding, error) {
	return nil, errMissing
}
