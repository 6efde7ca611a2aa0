// Package elasticsearch writes rows as documents into Elasticsearch or OpenSearch.
//
// It promises that the documents are the rows of the source, whatever is written twice or late: every document and every
// delete carries an external version, one more than the offset of its record, which is the same on every replay, and the
// store refuses a lower one and takes the same one again. So it is at least once and idempotent. What a change does not carry is read back first. It
// speaks the plain bulk interface that both stores have. The pipeline calls it.
package elasticsearch

import (
	"context"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// sink is used by one goroutine.
type sink struct {
	config *SinkConfig
	env    connectors.Env
	client *client
	ready  map[place]bool // indexes that were looked at
	folded *fold.Batch
	images fold.Images

	indexes connectors.Memo // their names
}

type place struct {
	index string
	table *connectors.Table
}

func open(ctx context.Context, c *SinkConfig, env connectors.Env) (connectors.Sink, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, env: env, client: client, ready: map[place]bool{}}
	if err := client.json(ctx, "GET", "/", nil, nil); err != nil {
		client.close()
		return nil, fmt.Errorf("open elasticsearch: %w", err)
	}
	return s, nil
}

// index returns the name of the index of a table.
func (s *sink) index(stream string, t *connectors.Table) string {
	return s.indexes.Of(stream, t, func() string { return s.config.index(stream, t) })
}

// WholeRows is true where each image becomes a document.
func (s *sink) WholeRows() bool { return s.config.Write == writeAppend }

// Write stores the batch. After an error some of it may be there, where the same comes again. What stands before a truncate
// is stored first where documents that go stay with a mark: then the truncate finds them.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
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
	if s.config.Deletes == ignoreDeletes {
		changes = slices.Clone(changes)
		for i := range changes {
			if changes[i].Op == connectors.Delete || changes[i].Op == connectors.Truncate {
				changes[i] = connectors.Change{Op: connectors.Message}
			}
		}
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
	for _, r := range s.folded.Rows {
		if err := s.prepare(ctx, b.Stream, r.Table); err != nil {
			return err
		}
	}
	old, err := s.recall(ctx, b.Stream)
	if err != nil {
		return fmt.Errorf("read documents before their change: %w", err)
	}
	for _, t := range s.folded.Truncated {
		if err := s.clear(ctx, b.Stream, t); err != nil {
			return fmt.Errorf("truncate %s: %w", t.FullName(), err)
		}
	}
	// A row that moved is stored before its old document goes: a crash in between leaves both, and not neither.
	var puts, deletes []action
	for _, r := range s.folded.Rows {
		a := action{index: s.index(b.Stream, r.Table), id: docID(r.Key), row: r}
		if r.Values == nil {
			deletes = append(deletes, a)
			continue
		}
		a.source = document(r, old[r], s.config.Deletes == softDeletes)
		puts = append(puts, a)
	}
	refused := map[int]error{}
	for _, list := range [][]action{puts, deletes} {
		if err := s.bulk(ctx, list, refused); err != nil {
			return fmt.Errorf("write documents: %w", err)
		}
	}
	return refusedRows(refused)
}

// refusedRows names refused rows to the pipeline.
func refusedRows(refused map[int]error) error {
	if len(refused) == 0 {
		return nil
	}
	var rows []connectors.RowError
	for i, err := range refused {
		rows = append(rows, connectors.RowError{Index: i, Err: err})
	}
	slices.SortFunc(rows, func(a, b connectors.RowError) int { return a.Index - b.Index })
	return &connectors.RowsError{Rows: rows}
}

// Close ends idle connections.
func (s *sink) Close(context.Context) error {
	s.client.close()
	return nil
}
