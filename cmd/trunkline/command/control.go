package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
)

// controlCommand is pause, resume or resync.
func (a *app) controlCommand(verb, short string) *cobra.Command {
	return words(a.facts(&cobra.Command{
		Use: verb + " NAME[/TABLE]", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				name, table, _ := strings.Cut(args[0], "/")
				role, err := findRole(ctx, client, name)
				if err != nil {
					return err
				}
				parts := []string{"api", role, name}
				if table != "" {
					parts = append(parts, table)
				}
				var answer struct {
					Done string `json:"done"`
				}
				if err := client.Call(ctx, "POST", api.Path(append(parts, verb)...), nil, &answer); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(answer)
				}
				_, err = fmt.Fprintln(a.out, answer.Done)
				return err
			})
		},
	}), a.targetNames)
}

// findRole tells whether a name is a source or a sink.
func findRole(ctx context.Context, client *api.Client, name string) (string, error) {
	var s pipeline.Status
	if err := client.Call(ctx, "GET", "/api/status", nil, &s); err != nil {
		return "", err
	}
	var names []string
	for _, m := range s.Sources {
		if m.Name == name {
			return "sources", nil
		}
		names = append(names, m.Name)
	}
	for _, m := range s.Sinks {
		if m.Name == name {
			return "sinks", nil
		}
		names = append(names, m.Name)
	}
	return "", usagef("there is no source or sink %q; there are %s", name, strings.Join(names, ", "))
}
