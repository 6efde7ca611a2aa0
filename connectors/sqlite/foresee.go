package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/trunkline/trunkline/connectors"
)

// foreseeSink says which tables the sink would make, and whether it would make the file. A source makes nothing.
func foreseeSink(decode connectors.Decode) (connectors.Foresee, error) {
	c, err := decodeSink(decode)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ connectors.Env, tables []*connectors.Table) (out []connectors.Effect, err error) {
		names := []string{offsetsTable}
		for _, t := range tables {
			names = append(names, c.target(t))
		}
		if _, err := os.Stat(c.Path); c.Path != "" && errors.Is(err, fs.ErrNotExist) {
			out = append(out, connectors.Effect{Kind: "file", Name: c.Path, Action: connectors.Create})
			for _, name := range names {
				out = append(out, connectors.Effect{Kind: "table", Name: name, Action: connectors.Create})
			}
			return out, nil
		}
		db, err := open(ctx, &c.File, readOnly...)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.close()) }()
		for _, name := range names {
			e := connectors.Effect{Kind: "table", Name: name, Action: connectors.Keep}
			var n int
			err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = ? COLLATE NOCASE", name).Scan(&n)
			if err != nil {
				return nil, fmt.Errorf("look at table %s: %w", name, err)
			}
			if n == 0 {
				e.Action = connectors.Create
			}
			out = append(out, e)
		}
		return out, nil
	}, nil
}
