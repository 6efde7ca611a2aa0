package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// foreseeSink says which tables the sink would make, which columns it would add, and whether it would make the file. A source makes nothing.
func foreseeSink(decode connectors.Decode) (connectors.Foresee, error) {
	c, err := decodeSink(decode)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ connectors.Env, tables []*connectors.Table) (out []connectors.Effect, err error) {
		_, err = os.Stat(c.Path)
		fresh := c.Path != "" && errors.Is(err, fs.ErrNotExist)
		var db *database
		if fresh {
			out = append(out, connectors.Effect{Kind: "file", Name: c.Path, Action: connectors.Create})
		} else {
			if db, err = open(ctx, &c.File, readOnly...); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, db.close()) }()
		}
		for _, t := range append([]*connectors.Table{nil}, tables...) {
			name := offsetsTable
			if t != nil {
				name = c.target(t)
			}
			var columns []column
			if !fresh {
				if columns, err = columnsOf(ctx, db, name); err != nil {
					return nil, err
				}
			}
			out = append(out, connectors.ForeseeTable(name, t, len(columns) > 0, c.Schema.Add, func(name string) bool {
				return slices.ContainsFunc(columns, func(c column) bool { return strings.EqualFold(c.name, name) })
			}))
		}
		return out, nil
	}, nil
}
