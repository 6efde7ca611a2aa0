package demo

import "github.com/spf13/cobra"

// Command is trunkline demo.
func Command() *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use: "demo", Short: "Show the whole thing on this machine, with nothing to install", Args: cobra.NoArgs,
		Long: `Open small shops with a live workload (SQLite; PostgreSQL too where its programs are on
this machine), move every change through the log into the stores, kill the line with
-9 in the middle and start it again, and at the end compare every row.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out = c.OutOrStdout()
			return Run(c.Context(), o)
		},
	}
	c.Flags().DurationVar(&o.For, "for", 0, "close the shops after this time (default: at Ctrl-C), as `30s`")
	c.Flags().StringVar(&o.Dir, "dir", "", "keep everything in this `folder` (default: a temporary one, removed at the end)")
	c.Flags().StringVar(&o.HTTP, "http", "127.0.0.1:8080", "`address` of the status page; any free port if it is taken")
	return c
}
