package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/config"
)

// Group describes a consumer group.
type Group struct {
	Name       string        `json:"name"`
	Sink       string        `json:"sink,omitempty"` // the sink whose group it is
	Members    int           `json:"members"`
	Lag        int64         `json:"lag"` // records between what is committed and the ends
	Partitions []GroupOffset `json:"partitions"`
}

// GroupOffset is where a group stands in one partition.
type GroupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // the next offset to read; -1: nothing is committed
	LogStart  int64  `json:"log_start"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member,omitempty"`
}

// Reset is the body of a reset. It moves every partition in which the group has committed, or those of one topic.
type Reset struct {
	To     string `json:"to"` // earliest, latest, an offset, or a time
	Topic  string `json:"topic,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Move is what a reset does to one partition.
type Move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1: nothing was committed
	To        int64  `json:"to"`
}

// sinkOf returns the configured sink whose group it is.
func (s *server) sinkOf(group string) string {
	for _, sink := range s.Pipeline.Config().Sinks {
		if sink.Group == group {
			return sink.Name
		}
	}
	return ""
}

func (s *server) listGroups(w http.ResponseWriter, r *http.Request) {
	groups, err := s.Journal.Groups(r.Context())
	if err != nil {
		problem(w, err)
		return
	}
	list := make([]Group, 0, len(groups))
	for _, g := range groups {
		described, err := s.group(r.Context(), g)
		if err != nil {
			problem(w, err)
			return
		}
		list = append(list, described)
	}
	reply(w, list)
}

func (s *server) describeGroup(w http.ResponseWriter, r *http.Request) {
	g, err := s.find(r.Context(), r.PathValue("group"))
	if err != nil {
		problem(w, err)
		return
	}
	described, err := s.group(r.Context(), g)
	if err != nil {
		problem(w, err)
		return
	}
	reply(w, described)
}

// find returns a group by name. A configured sink's group exists before it has committed anything.
func (s *server) find(ctx context.Context, name string) (log.Group, error) {
	groups, err := s.Journal.Groups(ctx)
	if err != nil {
		return log.Group{}, err
	}
	if i := slices.IndexFunc(groups, func(g log.Group) bool { return g.Name == name }); i >= 0 {
		return groups[i], nil
	}
	if s.sinkOf(name) != "" {
		return log.Group{Name: name}, nil
	}
	return log.Group{}, fmt.Errorf("group %s: %w", name, pipeline.ErrUnknown)
}

func (s *server) group(ctx context.Context, g log.Group) (Group, error) {
	out := Group{Name: g.Name, Sink: s.sinkOf(g.Name), Members: len(g.Members), Partitions: []GroupOffset{}}
	owners := map[log.TopicPartition]string{}
	for _, m := range g.Members {
		for _, tp := range m.Partitions {
			owners[tp] = m.ID
		}
	}
	topics := map[string]bool{}
	for tp := range g.Offsets {
		topics[tp.Topic] = true
	}
	for tp := range owners {
		topics[tp.Topic] = true
	}
	for name := range topics {
		t, err := s.Journal.Topic(ctx, name)
		if errors.Is(err, log.ErrUnknownTopic) {
			continue // deleted since
		}
		if err != nil {
			return out, err
		}
		for i, p := range t.Partitions {
			tp := log.TopicPartition{Topic: name, Partition: int32(i)}
			o := GroupOffset{Topic: name, Partition: tp.Partition, Committed: -1, LogStart: p.LogStart, End: p.LastStable, Member: owners[tp]}
			if committed, ok := g.Offsets[tp]; ok {
				o.Committed = committed
			}
			o.Lag = max(0, p.LastStable-max(o.Committed, p.LogStart))
			out.Lag += o.Lag
			out.Partitions = append(out.Partitions, o)
		}
	}
	slices.SortFunc(out.Partitions, func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out, nil
}

func (s *server) resetGroup(w http.ResponseWriter, r *http.Request) {
	var body Reset
	err := receive(w, r, &body)
	var moves []Move
	if err == nil {
		moves, err = s.reset(r.Context(), r.PathValue("group"), body)
	}
	if errors.Is(err, log.ErrGroupActive) {
		err = fmt.Errorf("reset group %s: %w: stop its readers first%s", r.PathValue("group"), log.ErrGroupActive, s.pauseHint(r.PathValue("group")))
	}
	if err != nil {
		problem(w, err)
		return
	}
	reply(w, moves)
}

func (s *server) pauseHint(group string) string {
	if sink := s.sinkOf(group); sink != "" {
		return " (trunkline pause " + sink + ")"
	}
	return ""
}

// reset works out where every partition goes, and stores it unless the run is dry.
func (s *server) reset(ctx context.Context, name string, body Reset) ([]Move, error) {
	to, err := parseTarget(body.To)
	if err != nil {
		return nil, err
	}
	g, err := s.find(ctx, name)
	if err != nil && body.Topic == "" {
		return nil, err
	}
	topics, err := s.resetTopics(ctx, g, body.Topic)
	if err != nil {
		return nil, err
	}
	moves, offsets := []Move{}, log.Offsets{}
	for _, t := range topics {
		for i, p := range t.Partitions {
			tp := log.TopicPartition{Topic: t.Name, Partition: int32(i)}
			next, err := to(ctx, s.Journal, tp, p)
			if err != nil {
				return nil, fmt.Errorf("reset group %s: %w", name, err)
			}
			m := Move{Topic: tp.Topic, Partition: tp.Partition, From: -1, To: next}
			if from, ok := g.Offsets[tp]; ok {
				m.From = from
			}
			moves, offsets[tp] = append(moves, m), next
		}
	}
	if len(moves) == 0 {
		return nil, badRequest("group %s has committed nothing yet; name a topic with --topic", name)
	}
	if body.DryRun {
		return moves, nil
	}
	if err := s.Pipeline.ResetGroup(ctx, name, offsets); err != nil {
		return nil, fmt.Errorf("reset group %s: %w", name, err)
	}
	s.Logger.Info("reset group", "group", name, "to", body.To, "topic", body.Topic)
	return moves, nil
}

// resetTopics returns the topics to reset: the named one, or all in which the group has committed.
func (s *server) resetTopics(ctx context.Context, g log.Group, topic string) ([]log.Topic, error) {
	names := map[string]bool{}
	if topic != "" {
		names[topic] = true
	} else {
		for tp := range g.Offsets {
			names[tp.Topic] = true
		}
	}
	var out []log.Topic
	for name := range names {
		t, err := s.Journal.Topic(ctx, name)
		if errors.Is(err, log.ErrUnknownTopic) && topic == "" {
			continue // deleted after the commit
		}
		if err != nil {
			return nil, fmt.Errorf("topic %s: %w", name, err)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b log.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// target gives the new offset of one partition.
type target func(ctx context.Context, journal log.Log, tp log.TopicPartition, p log.Partition) (int64, error)

// parseTarget reads earliest, latest, an offset or a time. An offset outside of a partition becomes its nearest end.
func parseTarget(text string) (target, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return func(_ context.Context, _ log.Log, _ log.TopicPartition, p log.Partition) (int64, error) {
			return min(max(n, p.LogStart), p.LastStable), nil
		}, nil
	}
	start, err := config.ParseStart(text)
	if err != nil {
		return nil, badRequest("to %q: %v, or an offset", text, err)
	}
	return func(ctx context.Context, journal log.Log, tp log.TopicPartition, p log.Partition) (int64, error) {
		switch {
		case start.Latest:
			return p.LastStable, nil
		case start.At.IsZero():
			return p.LogStart, nil
		}
		return journal.OffsetAt(ctx, tp, start.At)
	}, nil
}

func (s *server) deleteGroup(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("group")
	if err := s.Journal.DeleteGroup(r.Context(), name); err != nil {
		problem(w, fmt.Errorf("delete group %s: %w", name, err))
		return
	}
	reply(w, struct {
		Deleted string `json:"deleted"`
	}{name})
}
