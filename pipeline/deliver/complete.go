package deliver

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// Completion says whether values that an update left out (an unchanged TOAST value, a partial row image) are taken from
// the log's latest record of the same key.
type Completion uint8

// As a sink asks for it (connectors.WholeRows); always; never.
const (
	CompleteAuto Completion = iota
	CompleteAlways
	CompleteNever
)

// Limits of what is known of rows and not in the file yet.
const (
	maxPendingRows  = 20_000
	maxPendingBytes = 8 << 20
)

// rowKey names a row within a stream.
type rowKey struct{ table, key string }

// storedRow is the newest row of a key. schema is the id of its version.
type storedRow struct {
	schema int64
	row    []byte
}

// cover is what is known of the rows of a partition, since the first update that left something out: until then nothing
// is kept. Its pending part holds what came since the last time that all that was read had been written; the rest is in
// the file, which so never knows more than the sink.
type cover struct {
	pending map[rowKey]*storedRow // nil: the row is gone
	cleared map[string]bool       // tables that were truncated since
	bytes   int
}

func newCover() *cover { return &cover{pending: map[rowKey]*storedRow{}, cleared: map[string]bool{}} }

func (c *cover) full() bool { return len(c.pending) >= maxPendingRows || c.bytes >= maxPendingBytes }

// completes reports whether this attempt completes rows.
func (r *run) completes() bool {
	if r.o.Complete != CompleteAuto {
		return r.o.Complete == CompleteAlways
	}
	w, ok := r.sink.(connectors.WholeRows)
	return ok && w.WholeRows()
}

// complete fills in what a change left out, and remembers its row where the partition's rows are remembered.
func (r *run) complete(ctx context.Context, p *partition, record *log.Record, c *connectors.Change) error {
	if !r.whole || c.Op == connectors.Message || len(c.Table.Key) == 0 && c.Op != connectors.Truncate {
		return nil
	}
	lacks := c.After != nil && slices.ContainsFunc(c.After, connectors.Value.IsAbsent)
	if p.cover == nil {
		if !lacks {
			return nil
		}
		if err := r.coverRows(ctx, p, record.Offset); err != nil {
			return err
		}
	}
	if lacks {
		if err := r.fill(ctx, p, record, c); err != nil {
			return err
		}
	}
	return r.remember(p.cover, record, c)
}

// rowBefore returns the row that a record's key had; nil if none is known. A row that got another key is found under the
// old one, where the record of the old key has left it: in the same partition, or in another that stands still for the two.
func (r *run) rowBefore(ctx context.Context, p *partition, record *log.Record, c *connectors.Change) (*storedRow, error) {
	key := rowKey{c.Table.FullName(), string(record.Key)}
	if m, ok := codec.MoveOf(record); ok && m.Key != nil {
		other := r.partitions[log.TopicPartition{Topic: p.Topic, Partition: m.Partition}]
		switch {
		case m.Partition == p.Partition:
			key.key = string(m.Key)
		case r.keeper != nil && p.past != nil:
			return p.past.rowOf(ctx, m)
		case r.keeper != nil && other != nil:
			if other.cover == nil {
				if err := r.coverRows(ctx, other, other.next); err != nil {
					return nil, err
				}
			}
			p, key.key = other, string(m.Key)
			defer func() { other.cover.pending[key] = nil }()
		}
	}
	return r.rowAt(ctx, p, key)
}

// rowAt returns the row that a key has in a partition now; nil if none is known.
func (r *run) rowAt(ctx context.Context, p *partition, key rowKey) (*storedRow, error) {
	stored, known := p.cover.pending[key]
	if known || p.cover.cleared[key.table] {
		return stored, nil
	}
	return r.rows.get(ctx, p.rows, key)
}

// fill takes absent values from the row that the key had.
func (r *run) fill(ctx context.Context, p *partition, record *log.Record, c *connectors.Change) error {
	stored, err := r.rowBefore(ctx, p, record, c)
	if err != nil {
		return err
	}
	lacking := ""
	var old []connectors.Value
	var places []int
	if stored != nil {
		table, err := r.o.Schemas.Table(ctx, stored.schema)
		if err != nil {
			return fmt.Errorf("read version of a row of %s: %w", p.stream, err)
		}
		var ok bool
		if old, ok = parseRow(stored.row, len(table.Columns)); !ok {
			return fmt.Errorf("read rows of the log: a row of %s is damaged; remove %s, and it is made again", p.stream, r.rowsPath())
		}
		places = connectors.Match(table, c.Table)
	}
	for i := range c.After {
		if !c.After[i].IsAbsent() {
			continue
		}
		if old != nil && places[i] >= 0 {
			c.After[i] = old[places[i]]
		}
		if c.After[i].IsAbsent() {
			lacking = c.Table.Columns[i].Name
		}
	}
	if lacking != "" {
		r.incomplete(c.Table, lacking)
	}
	return nil
}

// incomplete counts a row that the log cannot complete, and says so once for a table.
func (r *run) incomplete(t *connectors.Table, column string) {
	r.meter.incomplete.Add(1)
	name := t.FullName()
	if r.lacking[name] {
		return
	}
	r.lacking[name] = true
	reason := fmt.Sprintf("an update left out column %q, and the log has no older record of its row any more: such rows are written without it, and marked", column)
	r.o.Logger.Warn(reason, "sink", r.o.Sink, "table", name)
	r.o.OnReport(connectors.Report{Table: name, Reason: reason})
}

// remember notes the row that a change leaves.
func (r *run) remember(c *cover, record *log.Record, change *connectors.Change) error {
	table := change.Table.FullName()
	key := rowKey{table, string(record.Key)}
	switch {
	case change.Op == connectors.Truncate:
		for k := range c.pending {
			if k.table == table {
				delete(c.pending, k)
			}
		}
		c.cleared[table] = true
	case change.After == nil:
		if _, moves := codec.MoveOf(record); !moves { // the record of the new key needs it yet
			c.pending[key] = nil
		}
	default:
		id, ok := codec.SchemaOf(record)
		if !ok {
			return nil
		}
		if m, ok := codec.MoveOf(record); ok && m.Key != nil { // where it is in this partition
			c.pending[rowKey{table, string(m.Key)}] = nil
		}
		row := appendRow(nil, change.After)
		c.pending[key] = &storedRow{id, row}
		c.bytes += len(row) + len(record.Key) + 64
	}
	return nil
}

func (r *run) rowsPath() string { return filepath.Join(r.o.Dir, "rows.db") }

// coverRows begins to remember the rows of a partition: from the file as far as that goes, and from the topic.
func (r *run) coverRows(ctx context.Context, p *partition, end int64) error {
	if r.rows == nil {
		var err error
		if r.rows, err = openRows(ctx, r.rowsPath()); err != nil {
			return err
		}
	}
	topic, err := r.o.Journal.Topic(ctx, p.Topic)
	if err != nil {
		return fmt.Errorf("read topic %s: %w", p.Topic, err)
	}
	p.rows = fmt.Sprintf("%s %x", p.stream, topic.ID) // a topic that was made again has other rows
	next, ok, err := r.rows.next(ctx, p.rows)
	if err != nil {
		return err
	}
	start := topic.Partitions[p.Partition].LogStart
	if !ok || next > end || next < start { // of another life, or ahead of a sink that was set back
		if err := r.rows.drop(ctx, p.rows); err != nil {
			return err
		}
		next = start
	}
	if next >= end {
		p.cover = newCover()
		return nil
	}
	r.o.Logger.Info("reading rows that updates leave parts of out", "sink", r.o.Sink, "topic", p.Topic, "partition", p.Partition, "offset", next)
	if p.cover, err = r.readPast(ctx, p, topic, next, end); err != nil {
		p.cover = nil
		return fmt.Errorf("read rows of %s: %w", p.stream, err)
	}
	return nil
}

// storeRows moves what is pending into the file. Everything below next has been dealt with, and nothing above it is known.
func (r *run) storeRows(ctx context.Context, stream string, c *cover, next int64) error {
	if err := r.rows.put(ctx, stream, c, next); err != nil {
		return err
	}
	clear(c.pending)
	clear(c.cleared)
	c.bytes = 0
	return nil
}

// settleRows stores the rows of a partition at a moment when all that was read of it has been written.
func (r *run) settleRows(ctx context.Context, p *partition) error {
	if p.cover == nil || len(p.cover.pending) == 0 && len(p.cover.cleared) == 0 {
		return nil
	}
	return r.storeRows(ctx, p.rows, p.cover, p.next)
}
