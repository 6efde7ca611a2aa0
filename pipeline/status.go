package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// Role tells sources from sinks.
type Role string

// The two roles.
const (
	RoleSource Role = "source"
	RoleSink   Role = "sink"
)

// Status is what the whole pipeline is doing at one moment. It is the answer of GET /api/status, so its JSON names are
// part of the outer contract. It never holds a value of a row or a secret.
type Status struct {
	Time    time.Time      `json:"time"`
	Started time.Time      `json:"started,omitzero"` // zero: no daemon runs, the log was opened to look
	Running bool           `json:"running"`
	Drains  bool           `json:"draining,omitempty"` // it was told to stop
	Log     LogStatus      `json:"log"`
	Sources []MemberStatus `json:"sources"`
	Topics  []TopicStatus  `json:"topics"` // not the internal ones
	Sinks   []MemberStatus `json:"sinks"`
}

// LogStatus is the log as a whole.
type LogStatus struct {
	Dir    string `json:"dir"`
	Topics int    `json:"topics"` // internal ones too
	Bytes  int64  `json:"bytes"`  // likewise
	// Segments counts the files with records, of all partitions and the internal topics too.
	Segments int `json:"segments"`
}

// MemberStatus is one source or sink. Counters count since the program started.
type MemberStatus struct {
	Name        string    `json:"name"`
	Role        Role      `json:"role"`
	Type        string    `json:"type"`
	Group       string    `json:"group,omitempty"` // sinks
	Reads       []string  `json:"reads,omitempty"` // sinks: the topics that are there for it
	State       State     `json:"state"`
	Reason      string    `json:"reason,omitempty"`
	Since       time.Time `json:"since,omitzero"`
	Failures    int       `json:"failures,omitempty"` // attempts in a row without progress
	RetryAt     time.Time `json:"retry_at,omitzero"`
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	Rows        int64     `json:"rows"` // changes durable in the log, or in the sink
	RowsPerSec  float64   `json:"rows_per_second"`
	LagRows     int64     `json:"lag_rows"`    // sinks: records in the log that it has not dealt with
	LagSeconds  float64   `json:"lag_seconds"` // age of what came through last, while more is to come
	DeadLetters int64     `json:"dead_letters,omitempty"`
	// Unrepresentable counts values that the columns of a sink's target could not hold, since the program started.
	Unrepresentable int64         `json:"unrepresentable,omitempty"`
	Incomplete      int64         `json:"incomplete_rows,omitempty"` // sinks: rows that an update left parts of out, and that the log could not complete
	Lost            int64         `json:"lost,omitempty"`            // sinks: records that retention removed before they were read
	WriteTakes      float64       `json:"write_seconds,omitempty"`   // sinks: how long the write in hand has taken so far
	Stalled         bool          `json:"stalled,omitempty"`         // sinks: a write hangs
	Retained        int64         `json:"retained_bytes,omitempty"`  // sources: change log that the server keeps for us
	Waiting         int64         `json:"waiting_rows,omitempty"`    // sources: rows that an extract left for the next one
	Unseen          int64         `json:"unseen_rows,omitempty"`     // sources: rows that no extract sees, for want of a cursor
	Schedule        string        `json:"schedule,omitempty"`        // sources
	NextRun         time.Time     `json:"next_run,omitzero"`         // sources with a schedule; zero: a run goes on, or none is planned
	LastRun         time.Time     `json:"last_run,omitzero"`         // likewise: when it began
	LastRunTakes    float64       `json:"last_run_seconds,omitempty"`
	MissedRuns      int64         `json:"missed_runs,omitempty"` // due times without a run of their own
	Verify          *VerifyStatus `json:"verify,omitempty"`      // sinks
	// Freshness says how long rows took from their commit in the source to their commit in the sink.
	Freshness *deliver.Freshness `json:"-"`
	Warning   string             `json:"warning,omitempty"`
	Tables    []TableStatus      `json:"tables,omitempty"`
}

// TableStatus is one table of a source; or one of a sink that has stopped, or of which there is something to say.
type TableStatus struct {
	Name          string  `json:"name"`
	Topic         string  `json:"topic,omitempty"`
	State         State   `json:"state"`
	Reason        string  `json:"reason,omitempty"`
	Rows          int64   `json:"rows"` // changes durable in the log
	SnapshotRows  int64   `json:"snapshot_rows,omitempty"`
	SnapshotTotal int64   `json:"snapshot_total,omitempty"` // an estimate
	RowsPerSec    float64 `json:"rows_per_second,omitempty"`
	SecondsLeft   float64 `json:"seconds_left,omitempty"`
}

// TopicStatus is one topic.
type TopicStatus struct {
	Name       string `json:"name"`
	Internal   bool   `json:"internal,omitempty"`
	Partitions int    `json:"partitions"`
	Records    int64  `json:"records"` // offsets between log start and high watermark
	End        int64  `json:"end"`     // sum of the high watermarks: all that were ever written
	Bytes      int64  `json:"bytes"`
	Segments   int    `json:"segments"`
	// RetentionSeconds is how long records are kept; 0: for ever.
	RetentionSeconds float64 `json:"retention_seconds"`
	// RetentionBytes is the size above which a partition loses its oldest segments; 0: no limit.
	RetentionBytes int64 `json:"retention_bytes,omitempty"`
}

// DescribeTopic sums a topic up.
func DescribeTopic(t log.Topic) TopicStatus {
	out := TopicStatus{Name: t.Name, Internal: t.Internal(), Partitions: len(t.Partitions), RetentionBytes: max(0, t.Config.RetentionBytes)}
	if t.Config.Retention > 0 {
		out.RetentionSeconds = t.Config.Retention.Seconds()
	}
	for _, p := range t.Partitions {
		out.Records += p.HighWatermark - p.LogStart
		out.End += p.HighWatermark
		out.Bytes += p.Bytes
		out.Segments += p.Segments
	}
	return out
}

// Failing returns the members that readiness does not accept.
func (s Status) Failing() []MemberStatus {
	var out []MemberStatus
	for _, list := range [][]MemberStatus{s.Sources, s.Sinks} {
		for _, m := range list {
			if !m.State.Healthy() || m.Stalled {
				out = append(out, m)
			}
		}
	}
	return out
}

// Status describes everything. It works without Run too: then all stands still.
func (p *Pipeline) Status(ctx context.Context) (Status, error) {
	topics, err := p.journal.Topics(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("list topics: %w", err)
	}
	groups, err := p.journal.Groups(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("list groups: %w", err)
	}
	if !p.Running() {
		if _, err := p.pauses.CatchUp(ctx); err != nil {
			return Status{}, err
		}
	}
	out := Status{
		Time: time.Now().UTC(), Running: p.Running(), Drains: p.draining.Load(), Log: LogStatus{Dir: p.Dir(), Topics: len(topics)},
		Sources: []MemberStatus{}, Topics: []TopicStatus{}, Sinks: []MemberStatus{},
	}
	if started := p.started.Load(); started != nil {
		out.Started = started.UTC()
	}
	for _, t := range topics {
		described := DescribeTopic(t)
		out.Log.Bytes += described.Bytes
		out.Log.Segments += described.Segments
		if !described.Internal {
			out.Topics = append(out.Topics, described)
		}
	}
	for _, s := range p.roster().sources {
		out.Sources = append(out.Sources, s.status(topics))
	}
	for _, s := range p.roster().sinks {
		out.Sinks = append(out.Sinks, s.status(ctx, topics, groups))
	}
	if !out.Running {
		p.markPaused(&out)
	}
	return out, nil
}

// describe fills in what sources and sinks have in common. The lock is held.
func (m *member) describe(kind string) MemberStatus {
	state := m.state
	if state == Running && m.near {
		state = CaughtUp
	}
	out := MemberStatus{
		Name: m.name, Role: m.role, Type: kind, State: state, Reason: m.reason, Since: m.since, Failures: m.failures,
		RetryAt: m.retryAt, LastError: m.lastErr, LastErrorAt: m.lastAt,
	}
	m.runs.describe(&out)
	return out
}

// settle takes back what the lag of this moment denies: a member that was caught up and is behind again is at work.
func (s *MemberStatus) settle() {
	if s.State == CaughtUp && s.LagSeconds >= nearNow.Seconds() {
		s.State = Running
	}
}

// follow notes how far the attempt has come, and says once that it is at its end: when it could be, and what comes
// through is new. Whoever is there may fall back a little, so that a busy line does not say so every second. The lock is
// held.
func (m *member) follow(could bool, lag time.Duration, moved int64) {
	if m.state == Running && (moved > m.begun || could && time.Since(m.since) > m.backoff.Limit) {
		m.failures = 0
	}
	limit := nearNow
	if m.near {
		limit = farBehind
	}
	near := could && lag < limit && m.state == Running
	if near && !m.near {
		m.logger.Info("caught up")
	}
	m.near = near
}
