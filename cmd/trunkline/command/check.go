package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/config"
)

// checkTimeout bounds how long one source or sink may take to be looked at.
const checkTimeout = 30 * time.Second

// checkup is what check prints.
type checkup struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Errors   []config.Error `json:"errors,omitempty"` // in the file
	Findings []finding      `json:"findings,omitempty"`
	Sources  int            `json:"sources"`
	Sinks    int            `json:"sinks"`
}

// finding is what one source or sink would not like.
type finding struct {
	Role string `json:"role"`
	Name string `json:"name"`
	connectors.Finding
	Line int `json:"line,omitempty"` // of the setting that has to be corrected
}

// line is the finding in words, without its severity.
func (f finding) line() string {
	text := fmt.Sprintf("%s %s: %s: %s", f.Role, f.Name, f.Subject, f.Problem)
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

func (a *app) checkCommand() *cobra.Command {
	var connect bool
	c := &cobra.Command{
		Use: "check", Short: "Read the configuration and report everything that is wrong with it", Args: cobra.NoArgs,
		Long: `Read the configuration and report everything that is wrong with it, with line and
remedy. --connect also connects everywhere, and reports rights, settings and tables
that would not work. Nothing is written anywhere.

Transforms are held against the tables that the log has seen: a misspelt column is
an error with the nearest name.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err == nil {
				err = checkTransforms(cfg)
			}
			report := checkup{File: a.file, OK: err == nil, Sources: len(cfg.Sources), Sinks: len(cfg.Sinks)}
			var findings config.Errors
			if errors.As(err, &findings) && a.json {
				report.Errors = findings
				return errors.Join(err, a.printJSON(report))
			}
			if err != nil {
				return err
			}
			if connect {
				a.connectAll(c.Context(), cfg, &report)
			}
			if err := a.printCheckup(report, connect); err != nil {
				return err
			}
			if !report.OK {
				return errors.New("what is marked as error would not work")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&connect, "connect", false, "connect everywhere too")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON for machines")
	return c
}

func (a *app) connectAll(ctx context.Context, cfg config.Config, report *checkup) {
	if len(cfg.Log.Brokers) > 0 {
		report.look(ctx, cfg, "log", "brokers", "", func(ctx context.Context, _ connectors.Env) ([]connectors.Finding, error) {
			return checkCluster(ctx, cfg.Log)
		})
	}
	if !cfg.Tracing.Off() {
		report.look(ctx, cfg, "tracing", "endpoint", "", func(ctx context.Context, _ connectors.Env) ([]connectors.Finding, error) {
			return checkTracing(ctx, cfg)
		})
	}
	for _, s := range cfg.Sources {
		report.look(ctx, cfg, "source", s.Name, s.Name, s.Check)
	}
	report.surveySources(ctx, cfg)
	for _, s := range cfg.Sinks {
		report.look(ctx, cfg, "sink", s.Name, s.Group, s.Check)
	}
}

// runCheck asks one system, for a bounded time.
func runCheck(ctx context.Context, name, group string, check connectors.Check) ([]connectors.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	env := connectors.NewEnv(name)
	env.Group = group
	return check(ctx, env)
}

// look runs one check and takes down what it found.
func (r *checkup) look(ctx context.Context, cfg config.Config, role, name, group string, check connectors.Check) {
	add := func(f connectors.Finding) {
		f.Problem, f.Remedy = cfg.Secrets.Hide(f.Problem), cfg.Secrets.Hide(f.Remedy)
		r.Findings = append(r.Findings, finding{role, name, f, cfg.Line(role, name, f.Key)})
		r.OK = r.OK && f.Severity != connectors.Fatal
	}
	if check == nil {
		add(connectors.Finding{Severity: connectors.Info, Subject: "connection", Problem: "this type has nothing to check"})
		return
	}
	found, err := runCheck(ctx, name, group, check)
	for _, f := range found {
		add(f)
	}
	switch {
	case err != nil:
		add(connectors.Finding{Severity: connectors.Fatal, Subject: "connection", Problem: err.Error()})
	case len(found) == 0:
		add(connectors.Finding{Severity: connectors.Info, Subject: "connection", Problem: "all is well"})
	}
}

func (a *app) printCheckup(r checkup, connected bool) error {
	if a.json {
		return a.printJSON(r)
	}
	for _, f := range r.Findings {
		where := ""
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d: ", r.File, f.Line)
		}
		fmt.Fprintf(a.out, "%-7s  %s%s\n", f.Severity, where, f.line())
	}
	verdict := "is well formed"
	if connected && r.OK {
		verdict = "works"
	} else if connected {
		verdict = "would not work"
	}
	_, err := fmt.Fprintf(a.out, "%s %s: %d sources, %d sinks\n", r.File, verdict, r.Sources, r.Sinks)
	return err
}
