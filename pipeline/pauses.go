package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/ingest"
	"github.com/trunkline/trunkline/pipeline/pause"
)

// byPerson is the reason of what a person paused. more says something about it, or is empty.
func byPerson(name, more string) string {
	return "by a person" + more + ": trunkline resume " + name + " lets it go on"
}

func (t Target) pause() pause.Target {
	return pause.Target{Role: string(t.Role), Name: t.Name, Table: t.Table}
}

// Pause stops a source or sink, cleanly, until Resume. A table of a source that is paused goes on being read, and its
// changes wait in the log; one of a sink waits in its topic. The pause is kept in the log: it outlives this process, and
// holds in all processes that share the log. Without Run it holds from the next start on.
func (p *Pipeline) Pause(ctx context.Context, t Target) error {
	return p.setPaused(ctx, t, true)
}

// Resume ends a pause, and tries again at once what waits, failed or stands before a gap. What waited of a table comes
// before what comes now.
func (p *Pipeline) Resume(ctx context.Context, t Target) error {
	return p.setPaused(ctx, t, false)
}

func (p *Pipeline) setPaused(ctx context.Context, t Target, paused bool) error {
	verb := "resume"
	if paused {
		verb = "pause"
	}
	m := p.memberOf(t)
	if m == nil {
		return fmt.Errorf("%s %s: %w", t.Role, t.Name, ErrUnknown)
	}
	if _, err := p.pauses.CatchUp(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", verb, t, err)
	}
	if _, known := p.pauses.Paused(t.pause()); t.Table != "" && !known {
		if err := p.checkTable(ctx, t); err != nil {
			return fmt.Errorf("%s %s: %w", verb, t, err)
		}
	}
	if t.Table == "" && p.Running() { // a log without room keeps nobody from a pause
		if paused {
			m.pause(ctx)
		} else {
			m.resume()
		}
	}
	err := p.pauses.Set(ctx, t.pause(), paused)
	if err != nil && t.Table == "" && p.Running() {
		return fmt.Errorf("%s %s: done, and forgotten with a restart: %w", verb, t, err)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, t, err)
	}
	if t.Table != "" && p.Running() {
		p.obeyTable(ctx, t, paused)
	}
	return nil
}

// memberOf returns the source or sink of a target, nil if there is none.
func (p *Pipeline) memberOf(t Target) *member {
	members := p.members()
	i := slices.IndexFunc(members, func(m *member) bool { return m.name == t.Name && m.role == t.Role })
	if i < 0 {
		return nil
	}
	return members[i]
}

// checkTable refuses a table that neither the source nor the log knows: most likely its name is misspelt.
func (p *Pipeline) checkTable(ctx context.Context, t Target) error {
	topics, err := p.journal.Topics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	reads := func(log.Topic) bool { return true }
	if t.Role == RoleSink {
		s, err := p.sink(t.Name)
		if err != nil {
			return err
		}
		reads = s.reads
	} else if slices.ContainsFunc(p.source(t.Name).ingest.Status().Tables, func(row ingest.TableStatus) bool { return row.Table == t.Table }) {
		return nil
	}
	if slices.ContainsFunc(topics, func(topic log.Topic) bool { return !topic.Internal() && reads(topic) && ofTable(topic.Name, t.Table) }) {
		return nil
	}
	return fmt.Errorf("%w: trunkline status and trunkline topics list show what there is", ErrUnknown)
}

// ofTable reports whether a topic is that of a table: by its own name, or behind the name of a source.
func ofTable(topic, table string) bool {
	return topic == table || strings.HasSuffix(topic, "."+table)
}

// obeyTable lets a source or sink take up that one of its tables is paused, or is no longer. A source goes on where it is
// when a table is paused; everything else takes effect between two attempts.
func (p *Pipeline) obeyTable(ctx context.Context, t Target, paused bool) {
	m := p.memberOf(t)
	if m == nil {
		return
	}
	if t.Role == RoleSource && paused {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pauseTime)
	defer cancel()
	_ = m.between(ctx, func(context.Context) error { return nil }) // it says no more than that time is up, or that nothing runs
}

// keepPaused lets a member that begins be as the log says.
func (p *Pipeline) keepPaused(m *member) {
	_, is := p.pauses.Paused(pause.Target{Role: string(m.role), Name: m.name})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused = m.paused || is; m.paused && !m.away {
		m.set(Paused, byPerson(m.name, ""))
	}
}

// markPaused shows what will be paused once something runs.
func (p *Pipeline) markPaused(s *Status) {
	for _, list := range [][]MemberStatus{s.Sources, s.Sinks} {
		for i := range list {
			if _, is := p.pauses.Paused(pause.Target{Role: string(list[i].Role), Name: list[i].Name}); is {
				list[i].State, list[i].Reason = Paused, byPerson(list[i].Name, "")
			}
		}
	}
}

// followPauses takes up what other processes that share the log were told.
func (p *Pipeline) followPauses(ctx context.Context) {
	if _, shared := p.journal.(log.Leaser); !shared {
		return
	}
	before := p.pauses.All()
	news, err := p.pauses.CatchUp(ctx)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			p.o.Logger.Warn("read what is paused", "error", err)
		}
		return
	}
	if !news {
		return
	}
	after := p.pauses.All()
	changed := func(list, other []pause.Target, paused bool) {
		for _, t := range list {
			if !slices.Contains(other, t) {
				p.obey(ctx, Target{Role(t.Role), t.Name, t.Table}, paused)
			}
		}
	}
	changed(after, before, true)
	changed(before, after, false)
}

// obey does here what another process was told.
func (p *Pipeline) obey(ctx context.Context, t Target, paused bool) {
	m := p.memberOf(t)
	switch {
	case m == nil:
	case t.Table != "":
		p.obeyTable(ctx, t, paused)
	case paused:
		m.pause(ctx)
	default:
		m.resume()
	}
}

// pausedTables returns the paused tables of a source, and in words how much waits of each.
func (s *source) pausedTables(topics []log.Topic) map[string]string {
	out := map[string]string{}
	for _, table := range s.p.pauses.Tables(string(RoleSource), s.name) {
		out[table] = byPerson(s.name+"/"+table, "")
		h, held := s.p.pauses.Held(s.name)[pause.Target{Role: string(RoleSource), Name: s.name, Table: table}]
		i := slices.IndexFunc(topics, func(t log.Topic) bool { return t.Name == h.Topic })
		if !held || i < 0 {
			continue
		}
		if n := topics[i].Partitions[0].LastStable - h.Next(topics[i]); n > 0 {
			out[table] = byPerson(s.name+"/"+table, fmt.Sprintf("; about %d records wait in the log", n))
		}
	}
	return out
}

// pausedTopic reports whether the records of a topic wait.
func (s *sink) pausedTopic(topic string) bool {
	return slices.ContainsFunc(s.p.pauses.Tables(string(RoleSink), s.name), func(table string) bool { return ofTable(topic, table) })
}

// pausedTables describes the paused tables of a sink.
func (s *sink) pausedTables() []TableStatus {
	var out []TableStatus
	for _, table := range s.p.pauses.Tables(string(RoleSink), s.name) {
		out = append(out, TableStatus{Name: table, State: Paused, Reason: byPerson(s.name+"/"+table, "")})
	}
	return out
}
