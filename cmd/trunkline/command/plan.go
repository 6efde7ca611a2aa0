package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
)

// plan is what plan prints.
type plan struct {
	File      string     `json:"file"`
	Log       string     `json:"log"`
	Running   bool       `json:"running"`   // compared with a daemon; false: with the log alone
	Connected bool       `json:"connected"` // with the databases too
	Create    int        `json:"create"`
	Change    int        `json:"change"`
	Leave     int        `json:"leave"`
	Keep      int        `json:"keep"`
	Steps     []planStep `json:"steps"`
	Findings  []finding  `json:"findings,omitempty"` // what would not work, as check --connect finds it
	Problems  []string   `json:"problems,omitempty"` // what could not be looked at
}

// planStep is one thing that the configuration would make, change, leave behind or keep.
type planStep struct {
	Action connectors.Action `json:"action"`
	Kind   string            `json:"kind"` // source, sink, topic, group, slot, publication, table, file
	Name   string            `json:"name"`
	Of     string            `json:"of,omitempty"` // the source or sink that needs it
	Detail string            `json:"detail,omitempty"`
}

// present is what there is: the log, and what runs on it.
type present struct {
	running bool
	dir     string
	shown   map[string]string      // YAML without secrets, by "source shop"
	topics  []pipeline.TopicStatus // not the internal ones
	groups  []api.Group
}

func (a *app) planCommand() *cobra.Command {
	var connect, all bool
	c := &cobra.Command{
		Use: "plan", Short: "Show what the configuration would make, change and leave behind", Args: cobra.NoArgs,
		Long: `Compare the configuration with what there is, and show what taking it up (by a
restart or SIGHUP) would make, change and leave behind: sources, sinks, topics and
groups. With a daemon, its settings are compared too, by what the page shows of
them: a change of a secret alone is not seen.

--connect also looks into the databases: which tables there are, which slots,
publications and target tables would be made or changed, and what they would refuse
(check --connect says more about that). Nothing is changed anywhere.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			p, err := a.plan(c, cfg, connect)
			if err != nil {
				return err
			}
			if err := a.printPlan(p, all); err != nil {
				return err
			}
			if len(p.Problems) > 0 {
				return fmt.Errorf("the plan is not complete: %s", p.Problems[0])
			}
			if len(p.Findings) > 0 {
				return errors.New("what is said not to work would fail: put it right first")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&connect, "connect", false, "look into the databases too")
	c.Flags().BoolVar(&all, "all", false, "show what stays as it is, too")
	return a.facts(c)
}

func (a *app) plan(c *cobra.Command, cfg config.Config, connect bool) (plan, error) {
	now, err := a.present(c, cfg)
	if err != nil {
		return plan{}, err
	}
	p := &planner{cfg: cfg, now: now, offers: map[string]connectors.Offer{},
		mute: map[string]bool{},
		plan: plan{File: a.file, Log: now.dir, Running: now.running, Connected: connect, Steps: []planStep{}}}
	if connect {
		p.check(c.Context())
		p.survey(c.Context())
	}
	p.members()
	p.topics()
	p.groups()
	if connect {
		p.effects(c.Context())
	}
	for i := range p.plan.Steps {
		p.plan.Steps[i].Detail = cfg.Secrets.Hide(p.plan.Steps[i].Detail)
		switch p.plan.Steps[i].Action {
		case connectors.Create:
			p.plan.Create++
		case connectors.Alter:
			p.plan.Change++
		case connectors.Leave:
			p.plan.Leave++
		default:
			p.plan.Keep++
		}
	}
	return p.plan, nil
}

// present asks the daemon, or the log itself. A log that is not there yet has nothing, and is not made.
func (a *app) present(c *cobra.Command, cfg config.Config) (present, error) {
	now := present{shown: map[string]string{}, dir: cfg.Log.Dir}
	if _, err := os.Stat(cfg.Log.Dir); a.address == "" && len(cfg.Log.Brokers) == 0 && errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	err := a.withClient(c, func(ctx context.Context, client *api.Client) error {
		var s pipeline.Status
		if err := client.Call(ctx, "GET", "/api/status", nil, &s); err != nil {
			return err
		}
		now.dir, now.running = s.Log.Dir, s.Running
		for _, m := range append(s.Sources, s.Sinks...) {
			var settings struct {
				YAML string `json:"yaml"`
			}
			if err := client.Call(ctx, "GET", api.Path("api", string(m.Role)+"s", m.Name, "config"), nil, &settings); err != nil {
				return err
			}
			now.shown[member(string(m.Role), m.Name)] = settings.YAML
		}
		var topics []pipeline.TopicStatus
		if err := client.Call(ctx, "GET", "/api/topics", nil, &topics); err != nil {
			return err
		}
		for _, t := range topics {
			if !t.Internal {
				now.topics = append(now.topics, t)
			}
		}
		return client.Call(ctx, "GET", "/api/groups", nil, &now.groups)
	})
	return now, err
}

func member(role, name string) string { return role + " " + name }

// printPlan shows the steps, and what stays as it is only in number unless all is asked for.
func (a *app) printPlan(p plan, all bool) error {
	if a.json {
		return a.printJSON(p)
	}
	g := newGrid(a.out)
	for _, s := range p.Steps {
		if s.Action == connectors.Keep && !all {
			continue
		}
		detail := s.Detail
		if s.Of != "" && detail != "" {
			detail = s.Of + ": " + detail
		} else if s.Of != "" {
			detail = s.Of
		}
		g.row(s.Action, s.Kind, s.Name, detail)
	}
	if err := g.flush(); err != nil {
		return err
	}
	for _, f := range p.Findings {
		fmt.Fprintln(a.out, "would not work:", f.line())
	}
	for _, problem := range p.Problems {
		fmt.Fprintln(a.out, "not looked at:", problem)
	}
	against := "the log in " + p.Log
	if p.Running {
		against = "the daemon on " + p.Log
	}
	if p.Connected {
		against += " and the databases"
	}
	_, err := fmt.Fprintf(a.out, "against %s: %d to create, %d to change, %d left behind, %d as they are; nothing was changed\n", against, p.Create, p.Change, p.Leave, p.Keep)
	return err
}
