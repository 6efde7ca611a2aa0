package postgres

import (
	"bytes"
	"context"

	"github.com/trunkline/trunkline/connectors"
)

// Types that do not hold all that other databases have under the same name.
const (
	oidDate        = 1082
	oidTimestamp   = 1114
	oidTimestampTZ = 1184

	categoryString = 'S'
)

// foreign reports a table of another kind of database, which has values that PostgreSQL does not.
func foreign(t *connectors.Table) bool { return t != nil && t.Dialect != dialect }

// holds says for each column of a table which values its target holds.
func (s *Sink) holds(ctx context.Context) func(*connectors.Table) ([]connectors.Holds, error) {
	return func(table *connectors.Table) ([]connectors.Holds, error) {
		if !foreign(table) {
			return nil, nil
		}
		if list, known := s.fits[table]; known {
			return list, nil
		}
		t, err := s.targetFor(ctx, table)
		if err != nil || t == nil {
			return nil, err
		}
		list := make([]connectors.Holds, len(table.Columns))
		for i := range table.Columns {
			if at := t.column(table.Columns[i].Name); at >= 0 {
				list[i] = columnHolds(table.Dialect, &table.Columns[i], &t.columns[at])
			}
		}
		if len(s.fits) >= maxRoutes {
			clear(s.fits)
		}
		s.fits[table] = list
		return list, nil
	}
}

// columnHolds is nil where the target's column holds everything, or the server is left to judge.
func columnHolds(from string, c *connectors.Column, t *targetColumn) connectors.Holds {
	switch t.oid {
	case oidBytea:
		return nil
	case oidDate, oidTimestamp, oidTimestampTZ:
		return holdsDate
	}
	if t.category == categoryString {
		return holdsText
	}
	if from != "sqlite" {
		switch c.Kind {
		case connectors.Text, connectors.JSON:
			return holdsText
		}
		return nil
	}
	kind := c.Kind // SQLite's values need not be of their column's type
	return func(v connectors.Value) bool { return v.Kind() == kind && holdsText(v) }
}

// holdsText is false for U+0000, which no text of PostgreSQL has.
func holdsText(v connectors.Value) bool {
	return v.Kind() == connectors.Bytes || bytes.IndexByte(v.Data(), 0) < 0
}

// holdsDate is false for zero, partial and invalid dates, and for texts.
func holdsDate(v connectors.Value) bool {
	switch v.Kind() {
	case connectors.Date, connectors.Timestamp, connectors.TimestampTZ:
		return connectors.IsDate(v.Data())
	}
	return false
}
