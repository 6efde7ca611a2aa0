package command

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

func (a *app) deadLettersCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "deadletters", Short: "List, replay and discard the rows that a sink refused",
		Long: "Rows that a sink's store refuses are kept in the topic _trunkline.deadletters.SINK. Once what was wrong is put right, replay\n" +
			"writes them again; discard marks them as done.",
	}
	c.AddCommand(a.lettersList(), a.lettersReplay(), a.lettersDiscard())
	return c
}

func (a *app) lettersList() *cobra.Command {
	var limit int
	var done, values bool
	c := &cobra.Command{
		Use: "list SINK", Short: "Show the rows that a sink refused, and why", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{"max": {strconv.Itoa(limit)}, "done": {strconv.FormatBool(done)}, "values": {strconv.FormatBool(values)}}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				var list deliver.Letters
				if err := client.Call(ctx, "GET", api.Path("api", "sinks", args[0], "deadletters")+"?"+query.Encode(), nil, &list); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(list)
				}
				return a.printLetters(list, values)
			})
		},
	}
	c.Flags().IntVar(&limit, "max", 100, "list at most so many; 0: all")
	c.Flags().BoolVar(&done, "done", false, "list those that were replayed or discarded too")
	c.Flags().BoolVar(&values, "values", false, "show keys and values of the rows")
	return words(a.facts(c), a.sinkNames)
}

func (a *app) printLetters(list deliver.Letters, values bool) error {
	head := []any{"ID", "TOPIC", "PARTITION", "OFFSET", "TIME", "KEY", "DONE", "REASON"}
	if values {
		head = append(head, "VALUE")
	}
	g := newGrid(a.out, head...)
	for _, l := range list.Letters {
		key := "no"
		if l.HasKey {
			key = "yes"
		}
		if values && l.HasKey {
			key = string(l.Key)
		}
		cells := []any{l.ID, l.Topic, l.Partition, l.Offset, l.Time.Local().Format(time.DateTime), key, l.Done, l.Reason}
		if values {
			cells = append(cells, string(l.Value))
		}
		g.row(cells...)
	}
	if err := g.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s wait, %s are done\n", count(int64(list.Waiting)), count(int64(list.Done)))
	return err
}

// letterFlags adds the flags that say which letters are meant.
func letterFlags(c *cobra.Command, body *api.Letters) {
	c.Flags().BoolVar(&body.All, "all", false, "all that wait")
	c.Flags().StringVar(&body.Topic, "topic", "", "all of this `topic`")
}

// letterIDs reads the ids behind the name of the sink.
func letterIDs(args []string, body *api.Letters) error {
	for _, text := range args {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 0 {
			return usagef("%q is no id of a dead letter; trunkline deadletters list shows them", text)
		}
		body.IDs = append(body.IDs, id)
	}
	if len(body.IDs) == 0 && body.Topic == "" && !body.All {
		return usagef("which dead letters? name ids, --topic, or --all")
	}
	return nil
}

func (a *app) lettersReplay() *cobra.Command {
	var body api.Letters
	c := &cobra.Command{
		Use: "replay SINK [ID…] [--all]", Short: "Write rows that a sink refused into it again", Args: cobra.MinimumNArgs(1),
		Long: "Writes dead letters into their sink again, which stands still meanwhile. A letter is left out when a newer record of its key\n" +
			"came after it. Exit code 1 when rows were refused again.",
		Example: "  trunkline deadletters replay warehouse --all",
		RunE: func(c *cobra.Command, args []string) error {
			if err := letterIDs(args[1:], &body); err != nil {
				return err
			}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				return a.replayLetters(ctx, client, args[0], body)
			})
		},
	}
	letterFlags(c, &body)
	c.Flags().BoolVar(&body.Superseded, "superseded", false, "also those that a newer record of their key has superseded, or may have")
	return words(a.facts(c), a.sinkNames)
}

// replayLetters asks again until all of them have been dealt with: one request takes a bounded number.
func (a *app) replayLetters(ctx context.Context, client *api.Client, sink string, body api.Letters) error {
	sum := deliver.Replayed{Left: []deliver.Unwritten{}, Refused: []deliver.Unwritten{}}
	for sum.Next = -1; ; {
		var part deliver.Replayed
		if err := client.Call(ctx, "POST", api.Path("api", "sinks", sink, "deadletters", "replay"), body, &part); err != nil {
			return err
		}
		sum.Written += part.Written
		sum.Earlier += part.Earlier
		sum.Left, sum.Refused = append(sum.Left, part.Left...), append(sum.Refused, part.Refused...)
		if part.Next < 0 {
			break
		}
		body.After = &part.Next
	}
	if a.json {
		if err := a.printJSON(sum); err != nil {
			return err
		}
	} else {
		a.printReplayed(sink, sum)
	}
	if len(sum.Refused) > 0 {
		return fmt.Errorf("sink %s refused %d rows again: put right what the reasons say, then trunkline deadletters replay %s", sink, len(sum.Refused), sink)
	}
	return nil
}

func (a *app) printReplayed(sink string, sum deliver.Replayed) {
	fmt.Fprintf(a.out, "%s written to %s\n", count(int64(sum.Written)), sink)
	if sum.Earlier > 0 {
		fmt.Fprintf(a.out, "%s had been written by a replay that was interrupted\n", count(int64(sum.Earlier)))
	}
	for word, list := range map[string][]deliver.Unwritten{"left out": sum.Left, "refused again": sum.Refused} {
		for i, l := range list {
			if i == shownKeys {
				fmt.Fprintf(a.out, "and %s more %s; --json names all\n", count(int64(len(list)-i)), word)
				break
			}
			fmt.Fprintf(a.out, "%s: %d: %s\n", word, l.ID, l.Reason)
		}
	}
}

func (a *app) lettersDiscard() *cobra.Command {
	var body api.Letters
	c := &cobra.Command{
		Use: "discard SINK [ID…] [--all]", Short: "Mark rows that a sink refused as done", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := letterIDs(args[1:], &body); err != nil {
				return err
			}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				var out api.Discarded
				if err := client.Call(ctx, "POST", api.Path("api", "sinks", args[0], "deadletters", "discard"), body, &out); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(out)
				}
				_, err := fmt.Fprintf(a.out, "discarded %s\n", count(int64(out.Discarded)))
				return err
			})
		},
	}
	letterFlags(c, &body)
	return words(a.facts(c), a.sinkNames)
}
