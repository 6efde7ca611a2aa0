package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/reconcile"
)

// shownKeys is how many keys of a table are printed; --json has all of them.
const shownKeys = 20

func (a *app) verifyCommand() *cobra.Command {
	var repair bool
	var window time.Duration
	c := &cobra.Command{
		Use: "verify SINK [TABLE]", Short: "Compare a sink's tables with their source while both change, and name the keys that differ",
		Long: "Compares the tables of a sink with those of the sources that feed it, on a running daemon. Rows are hashed in ranges of\n" +
			"their key; a key counts as different only when it still differs after everything the source had is in the sink.\n" +
			"Exit code 1 when rows differ. With --repair these keys are read anew and sent through the log.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			request := api.VerifyRequest{Repair: repair, Window: window.Seconds()}
			if len(args) == 2 {
				request.Table = args[1]
			}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				return a.verify(ctx, client, args[0], request)
			})
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "send the rows that differ through the log again")
	c.Flags().DurationVar(&window, "window", 0, "for a source that polls: how long a change may take from its commit into the log (default: verify.window of the sink)")
	return words(a.facts(c), a.sinkNames)
}

// errDiffer ends the command with a code of its own after all was printed.
var errDiffer = errors.New("rows differ from their source: trunkline verify --repair sends them through the log again")

func (a *app) verify(ctx context.Context, client *api.Client, sink string, request api.VerifyRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := client.Stream(ctx, "POST", api.Path("api", "sinks", sink, "verify"), nil, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	defer answer.Close()
	var list []pipeline.Verified
	last := reconcile.Progress{}
	lines := json.NewDecoder(bufio.NewReader(answer))
	for {
		var line api.VerifyLine
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		switch {
		case line.Error != "":
			return errors.New(line.Error)
		case line.Result != nil:
			list = append(list, *line.Result)
			if !a.json {
				a.printComparison(*line.Result)
			}
		case line.Progress != nil && !a.json && (line.Progress.Step != last.Step || line.Progress.Table != last.Table):
			last = *line.Progress
			fmt.Fprintf(a.problems, "%s: %s\n", last.Table, last.Step)
		}
	}
	if a.json {
		if err := a.printJSON(list); err != nil {
			return err
		}
	}
	for _, r := range list {
		if !r.Equal() {
			return errDiffer
		}
	}
	return nil
}

func (a *app) printComparison(r pipeline.Verified) {
	name := r.Source + "/" + r.Table
	if r.Problem != "" {
		fmt.Fprintf(a.out, "%s: not compared: %s\n", name, r.Problem)
		return
	}
	fmt.Fprintf(a.out, "%s → %s: %s rows in %s, %s\n", name, r.Target, count(r.Rows), span(r.Seconds), r.Method)
	if len(r.Left) > 0 {
		fmt.Fprintf(a.out, "  columns that the target does not have: %s\n", strings.Join(r.Left, ", "))
	}
	if r.Repaired > 0 {
		fmt.Fprintf(a.out, "  %s keys differed, were sent through the log again, and are equal now\n", count(int64(r.Repaired)))
	}
	for i, d := range r.Different {
		if i == shownKeys {
			fmt.Fprintf(a.out, "  and %s more; --json names all\n", count(int64(len(r.Different)-shownKeys)))
			break
		}
		fmt.Fprintf(a.out, "  %s %s", d.Kind, d.Key)
		if len(d.Columns) > 0 {
			fmt.Fprintf(a.out, ": %s", strings.Join(d.Columns, ", "))
		}
		fmt.Fprintln(a.out)
	}
	if r.More {
		fmt.Fprintln(a.out, "  so many keys differ that the rest was not looked at; a resync may be the better way")
	}
	if r.Unsettled > 0 {
		fmt.Fprintf(a.out, "  %s keys changed in the source at every look, so nothing can be said about them\n", count(int64(r.Unsettled)))
	}
	if !r.VerifiedThrough.IsZero() {
		word := "equal"
		if len(r.Different) > 0 {
			word = "equal but for these keys"
		}
		fmt.Fprintf(a.out, "  %s, verified through %s\n", word, r.VerifiedThrough.Local().Format(time.DateTime))
	}
}
