package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline/api"
)

func (a *app) groupsCommand() *cobra.Command {
	c := &cobra.Command{Use: "groups", Short: "List, describe, reset and delete consumer groups"}
	c.AddCommand(a.groupsList(), a.groupsDescribe(), a.groupsReset(), a.groupsDelete())
	return c
}

func (a *app) groupsList() *cobra.Command {
	return a.facts(&cobra.Command{
		Use: "list", Short: "List consumer groups with their lag", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				var groups []api.Group
				if err := client.Call(ctx, "GET", "/api/groups", nil, &groups); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(groups)
				}
				g := newGrid(a.out, "GROUP", "MEMBERS", "PARTITIONS", "LAG")
				for _, group := range groups {
					g.row(group.Name, group.Members, len(group.Partitions), count(group.Lag))
				}
				return g.flush()
			})
		},
	})
}

func (a *app) groupsDescribe() *cobra.Command {
	return words(a.facts(&cobra.Command{
		Use: "describe GROUP", Short: "Show where a group stands in each partition", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				var group api.Group
				if err := client.Call(ctx, "GET", api.Path("api", "groups", args[0]), nil, &group); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(group)
				}
				g := newGrid(a.out, "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER")
				for _, p := range group.Partitions {
					g.row(p.Topic, p.Partition, offset(p.Committed), p.End, count(p.Lag), p.Member)
				}
				return g.flush()
			})
		},
	}), a.groupNames)
}

// offset prints an offset that may be missing.
func offset(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func (a *app) groupsReset() *cobra.Command {
	var body api.Reset
	c := &cobra.Command{
		Use: "reset GROUP --to earliest|latest|OFFSET|TIME", Short: "Move the offsets of a group that has no members", Args: cobra.ExactArgs(1),
		Long: `Move the offsets of a group that has no members. A sink's group has none while
the sink is paused.`,
		Example: "  trunkline groups reset warehouse --to 2026-01-30T12:00:00Z --dry-run",
		RunE: func(c *cobra.Command, args []string) error {
			if body.To == "" {
				return usagef("--to is missing: earliest, latest, an offset, or a time such as 2026-01-30T12:00:00Z")
			}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				var moves []api.Move
				if err := client.Call(ctx, "POST", api.Path("api", "groups", args[0], "reset"), body, &moves); err != nil {
					return err
				}
				return a.printMoves(moves, body.DryRun)
			})
		},
	}
	c.Flags().StringVar(&body.To, "to", "", "where to: `earliest|latest|OFFSET|TIME`")
	c.Flags().StringVar(&body.Topic, "topic", "", "only this `topic` (default: all in which the group has committed)")
	c.Flags().BoolVar(&body.DryRun, "dry-run", false, "show what would move, and move nothing")
	word(c, "topic", a.topicNames)
	word(c, "to", oneOf("earliest", "latest"))
	return words(a.facts(c), a.groupNames)
}

func (a *app) printMoves(moves []api.Move, dry bool) error {
	if a.json {
		return a.printJSON(moves)
	}
	g := newGrid(a.out, "TOPIC", "PARTITION", "FROM", "TO")
	for _, m := range moves {
		g.row(m.Topic, m.Partition, offset(m.From), m.To)
	}
	if err := g.flush(); err != nil {
		return err
	}
	if dry {
		fmt.Fprintln(a.out, "nothing was moved (--dry-run)")
	}
	return nil
}

func (a *app) groupsDelete() *cobra.Command {
	return words(a.facts(&cobra.Command{
		Use: "delete GROUP", Short: "Forget the offsets of a group that has no members", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				if err := client.Call(ctx, "DELETE", api.Path("api", "groups", args[0]), nil, nil); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(a.out, "deleted group %s\n", args[0])
				return err
			})
		},
	}), a.groupNames)
}
