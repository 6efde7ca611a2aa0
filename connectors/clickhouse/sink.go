// Package clickhouse writes rows into tables of the engine ReplacingMergeTree.
//
// It promises that the visible rows (SELECT … FINAL) are those of the source, whatever is written twice or late: every row
// carries _version, the offset of its record, which is the same on every replay, and the highest one of a key counts; a
// deleted row is one more with _deleted. So it is at least once and idempotent. Rows are sent in columns over the native
// protocol, or over HTTP. What a change does not carry is read back from the table first. The pipeline calls it.
package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// sink is used by one goroutine.
type sink struct {
	config   *SinkConfig
	env      connectors.Env
	conn     driver.Conn
	database string
	server   server
	settings clickhouse.Settings
	targets  map[*connectors.Table]*target
	names    map[[2]string]*target // the newest target of each table
	fitter   *connectors.Fitter
	folded   *fold.Batch
	images   fold.Images
}

func open(ctx context.Context, c *SinkConfig, env connectors.Env) (connectors.Sink, error) {
	conn, database, err := c.connect()
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, env: env, conn: conn, database: database, fitter: connectors.NewFitter(c.Unrepresentable, env.Report)}
	s.forget()
	version, err := conn.ServerVersion()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open clickhouse: %w", fatal(err)), conn.Close())
	}
	s.server = serverOf(version.Version.Major, version.Version.Minor)
	// A block that a replicated table has seen before must be taken again after a truncate; the versions tell it apart.
	s.settings = clickhouse.Settings{"insert_deduplicate": 0}
	if s.server.async {
		s.settings["async_insert"] = 0
	}
	return s, ctx.Err()
}

// forget drops what is known of the tables, so that it is looked up again.
func (s *sink) forget() {
	s.targets, s.names = map[*connectors.Table]*target{}, map[[2]string]*target{}
}

// group is what a batch has for one target.
type group struct {
	target *target
	rows   []*fold.Row
}

// Write stores the batch, an INSERT for each table. After an error some of it may be there, where the same comes again.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	err := s.writeParts(ctx, b)
	var rows *connectors.RowsError
	if err != nil && !errors.As(err, &rows) {
		s.forget()
	}
	return err
}

// WholeRows is true where each image becomes a row.
func (s *sink) WholeRows() bool { return s.config.Write == writeAppend }

// writeParts writes what stands before a truncate first where rows that go stay with a mark: then the truncate finds them.
func (s *sink) writeParts(ctx context.Context, b connectors.Batch) error {
	if s.config.Write == writeAppend || s.config.Deletes != softDeletes {
		return s.write(ctx, b)
	}
	return fold.Parts(b, func(part connectors.Batch) error { return s.write(ctx, part) })
}

func (s *sink) write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	changes := b.Changes
	if s.config.Write == writeAppend {
		changes = s.images.Of(changes, s.config.Deletes == softDeletes)
	}
	changes, err := s.fitter.Fit(changes, func(*connectors.Table) bool { return true }, func(t *connectors.Table) ([]connectors.Holds, error) {
		tg, err := s.target(ctx, t)
		if err != nil {
			return nil, err
		}
		return tg.holds, nil
	})
	if err != nil {
		return err
	}
	if s.config.Deletes == ignoreDeletes {
		changes = withoutDeletes(changes)
	}
	s.folded = fold.Fold(changes, b.Stream, s.folded)
	if err := s.folded.Refused(); err != nil {
		return err
	}
	switch {
	case s.config.Write == writeAppend:
		s.folded.Mark(b.Changes)
	case s.config.Deletes == softDeletes:
		s.folded.Keep()
	}
	groups, err := s.groups(ctx)
	if err != nil {
		return err
	}
	refused := refusals{}
	for i := range groups {
		if err := s.complete(ctx, &groups[i]); err != nil {
			return fmt.Errorf("read rows before their change from %s: %w", groups[i].target.quoted(), err)
		}
		groups[i].target.fill(groups[i].rows, refused)
	}
	if len(refused) > 0 {
		return refused.err()
	}
	for _, t := range s.folded.Truncated {
		tg, err := s.target(ctx, t)
		if err != nil {
			return err
		}
		if err := s.conn.Exec(ctx, tg.empty()); err != nil {
			return fmt.Errorf("truncate %s: %w", tg.quoted(), fatal(err))
		}
	}
	for _, g := range groups {
		if err := s.insert(ctx, g, refused); err != nil {
			return err
		}
	}
	if len(refused) > 0 {
		return refused.err()
	}
	s.fitter.Written()
	return nil
}

// withoutDeletes returns the changes in which no row goes, each in its place.
func withoutDeletes(changes []connectors.Change) []connectors.Change {
	out := slices.Clone(changes)
	for i := range out {
		if out[i].Op == connectors.Delete || out[i].Op == connectors.Truncate {
			out[i] = connectors.Change{Op: connectors.Message}
		}
	}
	return out
}

// groups divides the folded rows by their targets.
func (s *sink) groups(ctx context.Context) ([]group, error) {
	var out []group
	index := map[*target]int{}
	for _, r := range s.folded.Rows {
		tg, err := s.target(ctx, r.Table)
		if err != nil {
			return nil, err
		}
		// A table that is in the batch with two versions has one target: the newest, which has the columns of all.
		tg = s.names[tg.name]
		i, ok := index[tg]
		if !ok {
			i = len(out)
			index[tg] = i
			out = append(out, group{target: tg})
		}
		out[i].rows = append(out[i].rows, r)
	}
	return out, nil
}

// insert sends the rows that are in the target's columns. When the server refuses them, it finds out which.
func (s *sink) insert(ctx context.Context, g group, refused refusals) error {
	err := s.send(ctx, g.target)
	switch {
	case err == nil:
		return nil
	case !isRefusal(err):
		return fmt.Errorf("insert into %s: %w", g.target.quoted(), fatal(err))
	case len(g.rows) == 1:
		refused.add(g.rows[0].Index, fmt.Errorf("the server refuses the row: %w", refusal(err)))
		return nil
	}
	middle := len(g.rows) / 2
	for _, half := range [][]*fold.Row{g.rows[:middle], g.rows[middle:]} {
		g.target.fill(half, refused)
		if err := s.insert(ctx, group{g.target, half}, refused); err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) send(ctx context.Context, tg *target) (err error) {
	batch, err := s.conn.PrepareBatch(clickhouse.Context(ctx, clickhouse.WithSettings(s.settings)), tg.insert)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	for i := range tg.columns {
		if err := tg.columns[i].cells.flush(batch.Column(i)); err != nil {
			return fmt.Errorf("column %q of type %s: %w: %w", tg.columns[i].name, tg.columns[i].kind, err, connectors.ErrFatal)
		}
	}
	return batch.Send()
}

// Close ends the connection.
func (s *sink) Close(context.Context) error { return s.conn.Close() }
