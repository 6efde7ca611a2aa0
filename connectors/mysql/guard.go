package mysql

import (
	"context"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// guard looks at the binary log around a position. The server purges by time and size, whoever still reads, so there is
// nothing to release.
type guard struct{ config SourceConfig }

func guardSource(decode connectors.Decode) (connectors.Guard, error) {
	config := DefaultSourceConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return guard{config}, nil
}

// Retained is nothing: the server keeps nothing for a source.
func (guard) Retained(context.Context, connectors.Env) (int64, error) { return 0, nil }

// Release has nothing to do.
func (guard) Release(context.Context, connectors.Env) error { return nil }

// Ahead compares the position's file with the list of the server's. Mode timestamp has none.
func (g guard) Ahead(ctx context.Context, _ connectors.Env, at connectors.Position) (out connectors.Ahead, err error) {
	p, err := parsePosition(at)
	if err != nil || p.File == "" || g.config.Mode == modeTimestamp {
		return out, nil // it is not a place in a binary log
	}
	e, err := g.config.address().endpoint()
	if err != nil {
		return out, err
	}
	db, err := e.pool()
	if err != nil {
		return out, err
	}
	defer db.Close()
	var server uint32
	if err := db.QueryRowContext(ctx, "SELECT @@server_id").Scan(&server); err != nil {
		return out, fmt.Errorf("ask for the server's id: %w", settle(err))
	}
	if server != p.Server {
		return out, nil // another server of the same replication: its files have names of their own
	}
	rows, err := db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return out, fmt.Errorf("list binary logs: %w", settle(err))
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return out, fmt.Errorf("list binary logs: %w", err)
	}
	from := place{p.File, p.Pos}
	if p.Redo != nil && p.Redo.place.before(from) {
		from = p.Redo.place
	}
	out.Purged = true
	for rows.Next() {
		var name, rest string
		var size int64
		into := []any{&name, &size}
		for range columns[2:] { // MySQL 8 says whether a file is encrypted
			into = append(into, &rest)
		}
		if err := rows.Scan(into...); err != nil {
			return out, fmt.Errorf("list binary logs: %w", err)
		}
		switch this := (place{File: name}); {
		case name == from.File:
			out.Purged = false
			out.Bytes += max(0, size-int64(from.Pos))
		case this.before(place{File: from.File}):
			out.Older++
		default:
			out.Newer++
			out.Bytes += size
		}
	}
	return out, rows.Err()
}
