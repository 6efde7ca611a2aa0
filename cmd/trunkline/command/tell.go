package command

import (
	"context"
	"log/slog"
	"time"

	"github.com/trunkline/trunkline/pipeline"
)

// How often a running pipeline speaks.
const (
	lookEvery     = time.Second
	snapshotEvery = 5 * time.Second
	summaryEvery  = 10 * time.Second
)

// teller remembers what was said, so that only news is.
type teller struct {
	logger   *slog.Logger
	rows     map[string]int64     // by member: rows at the last summary
	snapshot map[string]time.Time // by table: when its progress was last told
	summary  time.Time
}

// tell logs the progress of snapshots, and a short summary of what moved, until ctx ends;
// then the last summary.
func tell(ctx context.Context, p *pipeline.Pipeline, logger *slog.Logger) {
	t := &teller{logger: logger, rows: map[string]int64{}, snapshot: map[string]time.Time{}, summary: time.Now()}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if status, err := p.Status(context.WithoutCancel(ctx)); err == nil {
				t.moved(status.Sources)
				t.moved(status.Sinks)
			}
			return
		case now := <-ticker.C:
			status, err := p.Status(ctx)
			if err != nil {
				continue // the pipeline itself will say what is wrong with the log
			}
			t.snapshots(status, now)
			if now.Sub(t.summary) >= summaryEvery {
				t.summary = now
				t.moved(status.Sources)
				t.moved(status.Sinks)
			}
		}
	}
}

func (t *teller) snapshots(status pipeline.Status, now time.Time) {
	for _, m := range status.Sources {
		for _, table := range m.Tables {
			key := m.Name + "/" + table.Name
			if table.State != pipeline.Snapshot {
				delete(t.snapshot, key)
				continue
			}
			last, begun := t.snapshot[key]
			if !begun {
				last = now // small tables are read before anyone wants to know how far they are
				t.snapshot[key] = now
			}
			if now.Sub(last) < snapshotEvery {
				continue
			}
			t.snapshot[key] = now
			t.logger.Info("snapshot of "+table.Name, "source", m.Name, "rows", table.SnapshotRows, "of about", table.SnapshotTotal,
				"rows/s", int64(table.RowsPerSec), "left", span(table.SecondsLeft))
		}
	}
}

// moved tells the rate of every member through which something went since the last time.
func (t *teller) moved(members []pipeline.MemberStatus) {
	for _, m := range members {
		key := string(m.Role) + "/" + m.Name
		if m.Rows == t.rows[key] {
			continue
		}
		t.rows[key] = m.Rows
		facts := []any{string(m.Role), m.Name, "rows", m.Rows, "rows/s", int64(m.RowsPerSec)}
		if m.LagRows > 0 {
			facts = append(facts, "behind", m.LagRows)
		}
		if m.LagSeconds >= 1 {
			facts = append(facts, "lag", span(m.LagSeconds))
		}
		if m.DeadLetters > 0 {
			facts = append(facts, "dead letters", m.DeadLetters)
		}
		t.logger.Info(string(m.State), facts...)
	}
}
