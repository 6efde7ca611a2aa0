package ingest

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Status is what an ingest has done since it was made, over all attempts.
type Status struct {
	Connected  bool             // the source is open
	Phase      connectors.Phase // of the whole source, as it reports it
	Changes    int64            // durable in the log
	Bytes      int64            // of keys and values, before compression
	Commits    int64            //
	LastCommit time.Time        // zero: none yet
	LastSource time.Time        // when the newest durable change was committed in the source; zero: not known
	Retained   int64            // bytes of WAL or binlog that the server keeps for this source; 0: not known
	Reason     string           // the last warning of the source as a whole
	Tables     []TableStatus    // by name
}

// Lag is how long the newest durable change took from its commit in the source to its commit in the log.
func (s Status) Lag() time.Duration {
	if s.LastSource.IsZero() || s.LastCommit.IsZero() {
		return 0
	}
	return max(0, s.LastCommit.Sub(s.LastSource))
}

// TableStatus is the part of one table.
type TableStatus struct {
	Table         string // schema.table
	Topic         string // empty: no change yet
	Rows          int64  // changes durable in the log
	Phase         connectors.Phase
	SnapshotRows  int64  // rows of the snapshot handed over so far
	SnapshotTotal int64  // an estimate; 0: not known
	Reason        string // why it failed, or a warning
	Waiting       int64  // rows that an extract left for the next one
	Unseen        int64  // rows that no extract sees, for want of a cursor
}

// meter keeps the numbers. The counters of tables are read and written by any goroutine.
type meter struct {
	changes, bytes, commits atomic.Int64
	lastCommit, lastSource  atomic.Int64 // nanoseconds since 1970; 0: none
	mu                      sync.Mutex
	phase                   connectors.Phase
	retained                int64
	reason                  string
	tables                  map[string]*tableMeter
}

type tableMeter struct {
	rows atomic.Int64
	TableStatus
}

// table returns the meter of a table; topic may be empty.
func (m *meter) table(name, topic string) *tableMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tableLocked(name, topic)
}

func (m *meter) tableLocked(name, topic string) *tableMeter {
	t := m.tables[name]
	if t == nil {
		t = &tableMeter{TableStatus: TableStatus{Table: name}}
		m.tables[name] = t
	}
	if topic != "" {
		t.Topic = topic
	}
	return t
}

// note keeps a report of the source.
func (m *meter) note(r connectors.Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Retained != 0 {
		m.retained = r.Retained
	}
	if r.Table == "" {
		m.phase = cmp.Or(r.Phase, m.phase)
		m.reason = cmp.Or(r.Reason, m.reason)
		return
	}
	t := m.tableLocked(r.Table, "")
	if r.Phase != "" && r.Phase != t.Phase {
		t.Phase, t.Reason = r.Phase, ""
	}
	t.Reason = cmp.Or(r.Reason, t.Reason)
	t.SnapshotRows = cmp.Or(r.Rows, t.SnapshotRows)
	t.SnapshotTotal = cmp.Or(r.Total, t.SnapshotTotal)
	if r.Waiting != nil {
		t.Waiting = *r.Waiting
	}
	if r.Unseen != nil {
		t.Unseen = *r.Unseen
	}
}

// committed counts what became durable.
func (m *meter) committed(b batch) {
	m.changes.Add(b.changes)
	m.bytes.Add(b.bytes)
	m.commits.Add(1)
	m.lastCommit.Store(time.Now().UnixNano())
	if !b.time.IsZero() {
		m.lastSource.Store(b.time.UnixNano())
	}
	for _, t := range b.tables {
		t.meter.rows.Add(t.rows)
	}
}

// Status returns the numbers of now.
func (g *Ingest) Status() Status {
	g.mu.Lock()
	connected := g.source != nil
	g.mu.Unlock()
	m := &g.meter
	s := Status{
		Connected: connected, Changes: m.changes.Load(), Bytes: m.bytes.Load(), Commits: m.commits.Load(),
		LastCommit: fromNanos(m.lastCommit.Load()), LastSource: fromNanos(m.lastSource.Load()),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Phase, s.Retained, s.Reason = m.phase, m.retained, m.reason
	for _, t := range m.tables {
		row := t.TableStatus
		row.Rows = t.rows.Load()
		s.Tables = append(s.Tables, row)
	}
	slices.SortFunc(s.Tables, func(a, b TableStatus) int { return cmp.Compare(a.Table, b.Table) })
	return s
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
