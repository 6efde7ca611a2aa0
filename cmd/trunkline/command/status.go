package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
)

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var every time.Duration
	c := &cobra.Command{
		Use: "status", Short: "Show every source, topic and sink with state, rate, lag and last error", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < minWatch {
				return usagef("--every is less than %s", minWatch)
			}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				if watch {
					return a.watch(ctx, client, every)
				}
				var s pipeline.Status
				if err := client.Call(ctx, "GET", "/api/status", nil, &s); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(s)
				}
				return a.printStatus(s)
			})
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "show it again and again: on a terminal in place, until q or Ctrl-C; elsewhere as lines")
	c.Flags().DurationVar(&every, "every", 2*time.Second, "with --watch: how often")
	return a.facts(c)
}

// minWatch is how often a watch may look at most.
const minWatch = 50 * time.Millisecond

func (a *app) printStatus(s pipeline.Status) error {
	fmt.Fprintln(a.out, headline(s))
	if len(s.Sources) > 0 {
		fmt.Fprintln(a.out)
		g := newGrid(a.out, "SOURCE", "TYPE", "STATE", "ROWS", "ROWS/S", "LAG", "WHY")
		for _, m := range s.Sources {
			g.row(m.Name, m.Type, m.State, count(m.Rows), count(int64(m.RowsPerSec)), lag(m), why(m))
			for _, t := range m.Tables {
				g.row("  "+t.Name, "", t.State, count(t.Rows), count(int64(t.RowsPerSec)), "", tableNote(t))
			}
		}
		if err := g.flush(); err != nil {
			return err
		}
	}
	if len(s.Topics) > 0 {
		fmt.Fprintln(a.out)
		g := newGrid(a.out, "TOPIC", "PARTITIONS", "RECORDS", "SIZE")
		for _, t := range s.Topics {
			g.row(t.Name, t.Partitions, count(t.Records), size(t.Bytes))
		}
		if err := g.flush(); err != nil {
			return err
		}
	}
	if len(s.Sinks) > 0 {
		fmt.Fprintln(a.out)
		g := newGrid(a.out, "SINK", "TYPE", "STATE", "ROWS", "ROWS/S", "BEHIND", "LAG", "DEAD LETTERS", "WHY")
		for _, m := range s.Sinks {
			g.row(m.Name, m.Type, m.State, count(m.Rows), count(int64(m.RowsPerSec)), count(m.LagRows), lag(m), count(m.DeadLetters), why(m))
			for _, t := range m.Tables {
				g.row("  "+t.Name, "", t.State, "", "", "", "", "", tableNote(t))
			}
		}
		return g.flush()
	}
	return nil
}

// headline has what may be long at its end.
func headline(s pipeline.Status) string {
	state := "not running"
	if s.Running {
		state = "running for " + span(s.Time.Sub(s.Started).Seconds())
	}
	return fmt.Sprintf("%s, log of %s in %s", state, size(s.Log.Bytes), s.Log.Dir)
}

func lag(m pipeline.MemberStatus) string {
	if m.LagSeconds < 0.05 {
		return "-"
	}
	return span(m.LagSeconds)
}

// why is the reason of the state, or else the last error.
func why(m pipeline.MemberStatus) string {
	switch {
	case m.State == pipeline.Retrying && !m.RetryAt.IsZero():
		return m.Reason + "; tries again at " + m.RetryAt.Local().Format(time.TimeOnly)
	case m.Reason != "":
		return m.Reason
	case m.Warning != "":
		return m.Warning
	case m.LastError != "":
		return "last error at " + m.LastErrorAt.Local().Format("15:04:05") + ": " + m.LastError
	case !m.NextRun.IsZero():
		return "next run at " + m.NextRun.Local().Format(time.DateTime)
	}
	return ""
}

// tableNote says how far a snapshot is, or what is wrong.
func tableNote(t pipeline.TableStatus) string {
	if t.State != pipeline.Snapshot {
		return t.Reason
	}
	text := "snapshot: " + count(t.SnapshotRows)
	if t.SnapshotTotal > 0 {
		text += " of about " + count(t.SnapshotTotal)
	}
	text += " rows"
	if t.SecondsLeft > 0 {
		text += ", " + span(t.SecondsLeft) + " left"
	}
	return text
}
