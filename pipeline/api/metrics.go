package api

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// metricsTimeout bounds one scrape.
const metricsTimeout = 10 * time.Second

// states are the values of the label state, one of which is 1 for each member.
var states = []pipeline.State{pipeline.Stopped, pipeline.Opening, pipeline.Running, pipeline.CaughtUp, pipeline.Standby, pipeline.Retrying, pipeline.Paused,
	pipeline.Gap, pipeline.Failed, pipeline.Done}

// metrics serves the numbers of Status, so that they cannot differ from what people see.
func (s *server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(s.Pipeline), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector reads Status at each scrape. Names begin with what they are about: trunkline_source_, trunkline_sink_,
// trunkline_log_.
type collector struct {
	pipeline *pipeline.Pipeline
	state    map[pipeline.Role]*prometheus.Desc
	member   []memberMetric
	snapshot [2]*prometheus.Desc // rows, rows expected
	topic    [3]*prometheus.Desc // records, end, bytes
	up       *prometheus.Desc
	fresh    *prometheus.Desc
}

// memberMetric is one number of a source or sink.
type memberMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(pipeline.MemberStatus) float64
	role  pipeline.Role
}

func newCollector(p *pipeline.Pipeline) *collector {
	c := &collector{pipeline: p, state: map[pipeline.Role]*prometheus.Desc{}}
	c.up = prometheus.NewDesc("trunkline_log_up", "1 when the log could be read for this scrape.", nil, nil)
	for _, role := range []pipeline.Role{pipeline.RoleSource, pipeline.RoleSink} {
		c.state[role] = prometheus.NewDesc("trunkline_"+string(role)+"_state", "1 for the state that the "+string(role)+" is in.", []string{string(role), "state"}, nil)
		c.addCommon(role)
	}
	c.addSource()
	c.addSink()
	c.fresh = prometheus.NewDesc("trunkline_sink_freshness_seconds", "How long rows took from their commit in the source to their commit in the sink; not those of snapshots.", []string{"sink"}, nil)
	table, topic := []string{"source", "table"}, []string{"topic"}
	c.snapshot[0] = prometheus.NewDesc("trunkline_source_snapshot_rows", "Rows of the table's snapshot that were read.", table, nil)
	c.snapshot[1] = prometheus.NewDesc("trunkline_source_snapshot_rows_expected", "Rows that the table's snapshot is expected to have.", table, nil)
	c.topic[0] = prometheus.NewDesc("trunkline_log_topic_records", "Records between log start and high watermark.", topic, nil)
	c.topic[1] = prometheus.NewDesc("trunkline_log_topic_end_offset", "Sum of the high watermarks of the partitions.", topic, nil)
	c.topic[2] = prometheus.NewDesc("trunkline_log_topic_bytes", "Bytes on disk.", topic, nil)
	return c
}

// add takes one number of sources, or of sinks.
func (c *collector) add(role pipeline.Role, name, help string, kind prometheus.ValueType, value func(pipeline.MemberStatus) float64) {
	desc := prometheus.NewDesc("trunkline_"+string(role)+"_"+name, help, []string{string(role)}, nil)
	c.member = append(c.member, memberMetric{desc, kind, value, role})
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// addCommon takes what sources and sinks both have.
func (c *collector) addCommon(role pipeline.Role) {
	c.add(role, "rows_total", "Rows that became durable since the program started.", counter, func(m pipeline.MemberStatus) float64 { return float64(m.Rows) })
	c.add(role, "rows_per_second", "Rows a second over the last seconds.", gauge, func(m pipeline.MemberStatus) float64 { return m.RowsPerSec })
	c.add(role, "lag_seconds", "Age of the newest row that came through while more is to come.", gauge, func(m pipeline.MemberStatus) float64 { return m.LagSeconds })
	c.add(role, "attempts_failed", "Attempts in a row that ended in an error.", gauge, func(m pipeline.MemberStatus) float64 { return float64(m.Failures) })
	c.add(role, "paused_tables", "Tables that somebody paused.", gauge, func(m pipeline.MemberStatus) float64 { return float64(pausedTables(m)) })
}

// pausedTables counts the tables that wait while their source or sink goes on.
func pausedTables(m pipeline.MemberStatus) (n int) {
	for _, t := range m.Tables {
		if t.State == pipeline.Paused && m.State != pipeline.Paused {
			n++
		}
	}
	return n
}

// addSource takes what only sources have.
func (c *collector) addSource() {
	c.add(pipeline.RoleSource, "retained_bytes", "Bytes of change log that the source's server keeps for us.", gauge, func(m pipeline.MemberStatus) float64 { return float64(m.Retained) })
	c.add(pipeline.RoleSource, "waiting_rows", "Rows that an extract left for the next one, because an open transaction may change what comes before them.", gauge, func(m pipeline.MemberStatus) float64 { return float64(m.Waiting) })
	c.add(pipeline.RoleSource, "unseen_rows", "Rows whose cursor is NULL, so that no extract sees what happens to them.", gauge, func(m pipeline.MemberStatus) float64 { return float64(m.Unseen) })
	c.add(pipeline.RoleSource, "missed_runs_total", "Due times of the source's schedule that had no run of their own, since the program started.", counter, func(m pipeline.MemberStatus) float64 { return float64(m.MissedRuns) })
	c.add(pipeline.RoleSource, "next_run_timestamp_seconds", "When the next run of a source with a schedule is due, as Unix time; 0 while one goes on.", gauge, func(m pipeline.MemberStatus) float64 { return unix(m.NextRun) })
}

// addSink takes what only sinks have.
func (c *collector) addSink() {
	c.add(pipeline.RoleSink, "lag_rows", "Records in the log that the sink has not written.", gauge, func(m pipeline.MemberStatus) float64 { return float64(m.LagRows) })
	c.add(pipeline.RoleSink, "dead_letters_total", "Rows that the sink refused since the program started.", counter, func(m pipeline.MemberStatus) float64 { return float64(m.DeadLetters) })
	c.add(pipeline.RoleSink, "unrepresentable_total", "Values that the columns of the sink's target could not hold, since the program started.", counter, func(m pipeline.MemberStatus) float64 { return float64(m.Unrepresentable) })
	c.add(pipeline.RoleSink, "incomplete_rows_total", "Rows that an update left parts of out, and that the log could not complete.", counter, func(m pipeline.MemberStatus) float64 { return float64(m.Incomplete) })
	c.add(pipeline.RoleSink, "lost_records_total", "Records that retention removed before the sink had read them.", counter, func(m pipeline.MemberStatus) float64 { return float64(m.Lost) })
	c.add(pipeline.RoleSink, "write_seconds", "How long the write in hand has taken so far.", gauge, func(m pipeline.MemberStatus) float64 { return m.WriteTakes })
	c.add(pipeline.RoleSink, "differing_keys", "Keys that the last verification of the sink found to differ from their source.", gauge, func(m pipeline.MemberStatus) float64 {
		if m.Verify == nil {
			return 0
		}
		return float64(m.Verify.Different)
	})
	c.add(pipeline.RoleSink, "verified_through_timestamp_seconds", "What the sources had committed by then was found in the sink, as Unix time; 0: not verified yet.", gauge, func(m pipeline.MemberStatus) float64 {
		if m.Verify == nil {
			return 0
		}
		return unix(m.Verify.Through)
	})
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// Describe names every metric.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.up
	out <- c.fresh
	for _, d := range c.state {
		out <- d
	}
	for _, m := range c.member {
		out <- m.desc
	}
	for _, d := range append(c.snapshot[:], c.topic[:]...) {
		out <- d
	}
}

// Collect takes one Status apart.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	status, err := c.pipeline.Status(ctx)
	if err != nil {
		out <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 0)
		return
	}
	out <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 1)
	for _, m := range append(status.Sources, status.Sinks...) {
		c.collectMember(out, m)
	}
	for _, t := range status.Topics {
		for i, v := range []int64{t.Records, t.End, t.Bytes} {
			out <- prometheus.MustNewConstMetric(c.topic[i], prometheus.GaugeValue, float64(v), t.Name)
		}
	}
}

func (c *collector) collectMember(out chan<- prometheus.Metric, m pipeline.MemberStatus) {
	for _, s := range states {
		value := 0.0
		if m.State == s {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(c.state[m.Role], prometheus.GaugeValue, value, m.Name, string(s))
	}
	for _, metric := range c.member {
		if metric.role == m.Role {
			out <- prometheus.MustNewConstMetric(metric.desc, metric.kind, metric.value(m), m.Name)
		}
	}
	if m.Freshness != nil {
		buckets := make(map[float64]uint64, len(m.Freshness.Counts))
		for i, n := range m.Freshness.Counts {
			buckets[deliver.FreshnessBounds[i]] = uint64(n)
		}
		out <- prometheus.MustNewConstHistogram(c.fresh, uint64(m.Freshness.Count), m.Freshness.Seconds, buckets, m.Name)
	}
	for _, t := range m.Tables {
		if m.Role != pipeline.RoleSource {
			break
		}
		out <- prometheus.MustNewConstMetric(c.snapshot[0], prometheus.GaugeValue, float64(t.SnapshotRows), m.Name, t.Name)
		out <- prometheus.MustNewConstMetric(c.snapshot[1], prometheus.GaugeValue, float64(t.SnapshotTotal), m.Name, t.Name)
	}
}
