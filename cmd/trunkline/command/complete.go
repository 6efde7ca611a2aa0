package command

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
)

// completeTime bounds how long the shell may wait for names.
const completeTime = 3 * time.Second

// names lists what a word on the command line may be, given how it begins. Whatever goes wrong, the list is empty: there is
// nobody to read an error while a word is being completed.
type names func(c *cobra.Command, begun string) []string

// words completes the arguments of a command, the first with the first list and so on. Without a list a shell would offer
// the names of files, of which no argument here is one.
func words(c *cobra.Command, lists ...names) *cobra.Command {
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(lists) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, lists[len(args)], begun)
	}
	return c
}

// word completes the value of a flag.
func word(c *cobra.Command, flag string, list names) {
	// It fails only for a flag that the command does not have, which the first test to build the command would show.
	if err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return complete(c, list, begun)
	}); err != nil {
		panic(err)
	}
}

func complete(c *cobra.Command, list names, begun string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, name := range list(c, begun) {
		if strings.HasPrefix(name, begun) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}

// oneOf is a fixed list.
func oneOf(list ...string) names {
	return func(*cobra.Command, string) []string { return list }
}

// sinkNames and memberNames are in the configuration, which need not be valid for that, nor its variables set.
func (a *app) sinkNames(*cobra.Command, string) []string { return a.configured().sinks }

func (a *app) memberNames(*cobra.Command, string) []string {
	c := a.configured()
	return slices.Concat(c.sources, c.sinks)
}

type configured struct{ sources, sinks []string }

func (a *app) configured() configured {
	text, err := os.ReadFile(a.file)
	var file struct {
		Sources map[string]yaml.Node `yaml:"sources"`
		Sinks   map[string]yaml.Node `yaml:"sinks"`
	}
	if err != nil || yaml.Unmarshal(text, &file) != nil {
		return configured{}
	}
	return configured{slices.Collect(maps.Keys(file.Sources)), slices.Collect(maps.Keys(file.Sinks))}
}

// targetNames are sources and sinks and, behind a slash, their tables.
func (a *app) targetNames(c *cobra.Command, begun string) []string {
	name, _, tables := strings.Cut(begun, "/")
	if !tables {
		return a.memberNames(c, begun)
	}
	var out []string
	var s pipeline.Status
	a.ask(c, "/api/status", &s)
	for _, m := range append(s.Sources, s.Sinks...) {
		if m.Name != name {
			continue
		}
		for _, t := range m.Tables {
			out = append(out, name+"/"+t.Name)
		}
		for _, topic := range m.Reads { // a sink's tables go by the names of their topics
			out = append(out, name+"/"+topic)
		}
	}
	return out
}

func (a *app) topicNames(c *cobra.Command, begun string) []string {
	var list []pipeline.TopicStatus
	a.ask(c, "/api/topics", &list)
	var out []string
	for _, t := range list {
		if !t.Internal || strings.HasPrefix(begun, "_") {
			out = append(out, t.Name)
		}
	}
	return out
}

func (a *app) groupNames(c *cobra.Command, _ string) []string {
	var list []api.Group
	a.ask(c, "/api/groups", &list)
	var out []string
	for _, g := range list {
		out = append(out, g.Name)
	}
	return out
}

// ask gets what the daemon or the log says, and leaves into as it is if that takes too long or fails. Nothing is printed.
func (a *app) ask(c *cobra.Command, path string, into any) {
	ctx, cancel := context.WithTimeout(c.Context(), completeTime)
	defer cancel()
	quiet := *a
	quiet.problems = io.Discard
	asking := &cobra.Command{}
	asking.SetContext(ctx)
	_ = quiet.withClient(asking, func(ctx context.Context, client *api.Client) error { // as the comment says
		return client.Call(ctx, "GET", path, nil, into)
	})
}
