package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

// planner compares a configuration with what there is.
type planner struct {
	cfg    config.Config
	now    present
	offers map[string]connectors.Offer // by source: what its database has
	mute   map[string]bool             // sources and sinks that do not answer, and are not asked again
	plan   plan
}

func (p *planner) step(action connectors.Action, kind, name, of, detail string) {
	p.plan.Steps = append(p.plan.Steps, planStep{action, kind, name, of, detail})
}

func (p *planner) problem(of string, err error) {
	p.mute[of] = true
	p.plan.Problems = append(p.plan.Problems, p.cfg.Secrets.Hide(fmt.Sprintf("%s: %v", of, err)))
}

// check asks the systems what they would refuse.
func (p *planner) check(ctx context.Context) {
	look := func(role, name, group string, check connectors.Check) {
		if check == nil {
			return
		}
		found, err := runCheck(ctx, name, group, check)
		for _, f := range found {
			if f.Severity == connectors.Fatal {
				f.Problem, f.Remedy = p.cfg.Secrets.Hide(f.Problem), p.cfg.Secrets.Hide(f.Remedy)
				p.plan.Findings = append(p.plan.Findings, finding{Role: role, Name: name, Finding: f})
			}
		}
		if err != nil {
			p.problem(member(role, name), err)
		}
	}
	for _, s := range p.cfg.Sources {
		look("source", s.Name, s.Name, s.Check)
	}
	for _, s := range p.cfg.Sinks {
		look("sink", s.Name, s.Group, s.Check)
	}
}

// survey asks the databases of the sources for their tables.
func (p *planner) survey(ctx context.Context) {
	for _, s := range p.cfg.Sources {
		if s.Survey == nil || p.mute[member("source", s.Name)] {
			continue
		}
		look, cancel := context.WithTimeout(ctx, checkTimeout)
		offer, err := s.Survey(look, connectors.NewEnv(s.Name))
		cancel()
		if err != nil {
			p.problem(member("source", s.Name), err)
			continue
		}
		p.offers[s.Name] = offer
	}
}

// members compares sources and sinks with those of the daemon; without one, with what they left in the log.
func (p *planner) members() {
	known := map[string]bool{}
	for _, s := range p.cfg.Sources {
		name := member("source", s.Name)
		known[name] = true
		there := slices.ContainsFunc(p.now.topics, func(t pipeline.TopicStatus) bool { return owns(s, t.Name) })
		p.member("source", s.Name, s.Shown, there, "it has no topics yet: its tables are read first")
	}
	for _, s := range p.cfg.Sinks {
		name := member("sink", s.Name)
		known[name] = true
		there := slices.ContainsFunc(p.now.groups, func(g api.Group) bool { return g.Name == s.Group })
		p.member("sink", s.Name, s.Shown, there, "its group has read nothing yet")
	}
	if !p.now.running {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.now.shown)) {
		role, short, _ := strings.Cut(name, " ")
		switch {
		case known[name]:
		case role == "source":
			p.step(connectors.Leave, role, short, "", "it ends; its topics stay, and so does what it made on its server, which may keep changes for it: drop its slot there")
		default:
			p.step(connectors.Leave, role, short, "", "it ends; what it wrote stays")
		}
	}
}

func (p *planner) member(role, name, shown string, there bool, fresh string) {
	before, runs := p.now.shown[member(role, name)]
	runs = runs && p.now.running
	switch {
	case runs && before == p.cfg.Secrets.Hide(shown):
		p.step(connectors.Keep, role, name, "", "")
	case runs:
		keys, old := differingKeys(before, shown)
		p.step(connectors.Alter, role, name, "", "settings "+strings.Join(keys, ", ")+": it ends in good order and begins anew where it stopped")
		for _, kind := range []string{"slot", "publication"} {
			if text, ok := old[kind].(string); ok && slices.Contains(keys, kind) {
				p.step(connectors.Leave, kind, text, member(role, name), "it stays on the server until somebody drops it")
			}
		}
	case p.now.running:
		p.step(connectors.Create, role, name, "", fresh)
	case there:
		p.step(connectors.Keep, role, name, "", "")
	default:
		p.step(connectors.Create, role, name, "", fresh)
	}
}

// differingKeys returns the names of the settings that differ, and the old settings.
func differingKeys(before, after string) (keys []string, old map[string]any) {
	var a, b map[string]any
	if yaml.Unmarshal([]byte(before), &a) != nil || yaml.Unmarshal([]byte(after), &b) != nil {
		return []string{"(cannot be told)"}, nil
	}
	all := maps.Clone(b)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, a)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		x, inA := a[key]
		y, inB := b[key]
		if inA != inB || !reflect.DeepEqual(x, y) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		keys = []string{"(their order)"}
	}
	return keys, a
}

// owns reports whether the template of a source's topics can give the name.
func owns(s config.Source, topic string) bool {
	names := pipeline.TopicNames(s)
	return names != nil && names.MatchString(topic)
}

// topics compares the topics of the sources with those in the log.
func (p *planner) topics() {
	wanted := map[string]bool{}
	for _, s := range p.cfg.Sources {
		offer, looked := p.offers[s.Name]
		if !looked || len(s.Transforms) > 0 { // transforms may route rows anywhere
			for _, t := range p.now.topics {
				if owns(s, t.Name) && !wanted[t.Name] {
					wanted[t.Name] = true
					p.step(connectors.Keep, "topic", t.Name, member("source", s.Name), "")
				}
			}
			continue
		}
		for _, t := range offer.Tables {
			p.topic(s, t, wanted)
		}
	}
	for _, t := range p.now.topics {
		if wanted[t.Name] {
			continue
		}
		detail := "no source in the file writes it"
		if i := slices.IndexFunc(p.cfg.Sources, func(s config.Source) bool { return owns(s, t.Name) }); i >= 0 {
			detail = "source " + p.cfg.Sources[i].Name + " has no table for it"
		}
		p.step(connectors.Leave, "topic", t.Name, "", fmt.Sprintf("%s; its records, about %s, stay as long as it keeps them", detail, count(t.Records)))
	}
}

func (p *planner) topic(s config.Source, t connectors.OfferedTable, wanted map[string]bool) {
	if t.Table == nil {
		return
	}
	name := ingest.TopicName(s.Topic, s.Name, t.Table)
	if wanted[name] {
		return
	}
	wanted[name] = true
	if slices.ContainsFunc(p.now.topics, func(x pipeline.TopicStatus) bool { return x.Name == name }) {
		p.step(connectors.Keep, "topic", name, member("source", s.Name), "")
		return
	}
	c := p.cfg.Log.Topics.TopicConfig()
	kept := "kept for ever"
	if c.Retention > 0 {
		kept = "kept for " + strings.TrimSuffix(strings.TrimSuffix(c.Retention.Round(time.Second).String(), "0s"), "0m")
	} else if c.Retention != log.Forever {
		kept = "kept as the log says"
	}
	p.step(connectors.Create, "topic", name, member("source", s.Name), fmt.Sprintf("%d partitions, %s; about %s rows of table %s are read first", cmp.Or(c.Partitions, 4), kept, count(t.Rows), t.Name))
}

// groups compares the groups of the sinks with those in the log.
func (p *planner) groups() {
	wanted := map[string]bool{}
	for _, s := range p.cfg.Sinks {
		wanted[s.Group] = true
		i := slices.IndexFunc(p.now.groups, func(g api.Group) bool { return g.Name == s.Group })
		if i < 0 {
			n, records := 0, int64(0)
			for _, t := range p.now.topics {
				if takes(s, t.Name) {
					n, records = n+1, records+t.Records
				}
			}
			p.step(connectors.Create, "group", s.Group, member("sink", s.Name), fmt.Sprintf("%s, of about %s records in %d topics that are there", begins(s.From), count(records), n))
			continue
		}
		p.group(s, p.now.groups[i])
	}
	for _, g := range p.now.groups {
		if !wanted[g.Name] && !log.IsInternal(g.Name) {
			p.step(connectors.Leave, "group", g.Name, "", "no sink in the file has it; retention spares nothing for it any more")
		}
	}
}

// group compares what a group has read with what its sink is to read.
func (p *planner) group(s config.Sink, g api.Group) {
	var comes, goes []string
	read := map[string]bool{}
	for _, part := range g.Partitions {
		if !read[part.Topic] && part.Committed >= 0 {
			read[part.Topic] = true
			if !takes(s, part.Topic) {
				goes = append(goes, part.Topic)
			}
		}
	}
	for _, t := range p.now.topics {
		if takes(s, t.Name) && !read[t.Name] && t.Records > 0 {
			comes = append(comes, fmt.Sprintf("%s (about %s records)", t.Name, count(t.Records)))
		}
	}
	var detail []string
	if len(comes) > 0 {
		detail = append(detail, begins(s.From)+" in "+strings.Join(comes, ", "))
	}
	if len(goes) > 0 {
		detail = append(detail, "reads no more of "+strings.Join(goes, ", "))
	}
	action := connectors.Keep
	if len(detail) > 0 {
		action = connectors.Alter
	}
	p.step(action, "group", g.Name, member("sink", s.Name), strings.Join(detail, "; "))
}

// begins says where a group begins in what it has not read.
func begins(from log.Start) string {
	switch {
	case !from.At.IsZero():
		return "begins at " + from.At.Format(time.RFC3339)
	case from.Latest:
		return "begins at the end"
	}
	return "begins at the oldest record"
}

// effects asks the systems what would be made or changed there.
func (p *planner) effects(ctx context.Context) {
	look := func(of string, env connectors.Env, foresee connectors.Foresee, tables []*connectors.Table) {
		if foresee == nil || p.mute[of] {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		list, err := foresee(ctx, env, tables)
		if err != nil {
			p.problem(of, err)
			return
		}
		for _, e := range list {
			p.step(e.Action, e.Kind, e.Name, of, e.Detail)
		}
	}
	for _, s := range p.cfg.Sources {
		look(member("source", s.Name), connectors.NewEnv(s.Name), s.Foresee, nil)
	}
	for _, s := range p.cfg.Sinks {
		env := connectors.NewEnv(s.Name)
		env.Group = s.Group
		look(member("sink", s.Name), env, s.Foresee, p.tablesOf(s))
	}
}

// tablesOf returns the tables of the sources that a sink reads. What transforms make of them is not known here.
func (p *planner) tablesOf(sink config.Sink) []*connectors.Table {
	var out []*connectors.Table
	if len(sink.Transforms) > 0 {
		return nil
	}
	for _, s := range p.cfg.Sources {
		for _, t := range p.offers[s.Name].Tables {
			if t.Table != nil && len(s.Transforms) == 0 && takes(sink, ingest.TopicName(s.Topic, s.Name, t.Table)) {
				out = append(out, t.Table)
			}
		}
	}
	return out
}
