package bench

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Command is trunkline bench.
func Command() *cobra.Command {
	var o Options
	var about strings.Builder
	about.WriteString("Measure this program beside its peers and beside what the databases can hand out, on private\nservers on this machine, in one run. The ratios are what counts.\n\n")
	names := []string{"all"}
	for _, n := range Names() {
		fmt.Fprintf(&about, "  %-18s %s\n", n[0], n[1])
		names = append(names, n[0])
	}
	c := &cobra.Command{
		Use: "bench [NAME...]", Short: "Measure against peers and limits on this machine", Long: about.String(), ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			o.Names, o.Out = args, c.OutOrStdout()
			return Run(c.Context(), o)
		},
	}
	c.Flags().IntVar(&o.Rows, "rows", 1_000_000, "rows of the table")
	c.Flags().IntVar(&o.Rounds, "rounds", 3, "how often each command is timed, in turn with its peer")
	c.Flags().StringVar(&o.Codec, "compression", "", "of the log's topics (default: the log's default)")
	c.Flags().BoolVar(&o.Markdown, "markdown", false, "print the report as a table of Markdown")
	c.Flags().StringVar(&o.Self, "self", "", "the `program` to measure (default: this one)")
	return c
}
