// Package command is the command line of Trunkline.
//
// It promises the commands, exit codes and outputs of the outer contract: 0 done, 1 not done, 2 a fault of the call or
// the configuration, 3 a source's position is lost; facts on stdout, one line for an error on stderr. A program that
// adds a connector of its own calls Main with its list; nothing is registered anywhere else. It knows no database.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
)

// gcPercent is the garbage collector's goal. Rows live in buffers that are used again, so there is little to collect, and
// half of the usual goal costs nothing that can be measured and keeps the process smaller.
const gcPercent = 50

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitGap    = 3
	exitSignal = 128 // and its number
)

// Options is what makes one program differ from another.
type Options struct {
	Connectors []connectors.Connector
	Commands   []*cobra.Command // more commands
	Version    string           // default: what the build knows
}

// Main runs the command line of this process and returns its exit code. The first signal ends what runs in good order,
// the second at once.
func Main(o Options) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals, over := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var heard sync.WaitGroup
	heard.Go(func() { obey(signals, over, cancel) })
	code := Run(ctx, o, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	signal.Stop(signals)
	close(over)
	heard.Wait()
	return code
}

// obey cancels at the first signal and ends the process at the second, however soon after the first it comes.
func obey(signals <-chan os.Signal, over <-chan struct{}, cancel func()) {
	select {
	case <-signals:
		cancel()
	case <-over:
		return
	}
	select {
	case s := <-signals:
		n, _ := s.(syscall.Signal)
		os.Exit(exitSignal + int(n))
	case <-over:
	}
}

// Run is Main on other streams.
func Run(ctx context.Context, o Options, args []string, in io.Reader, out, problems io.Writer) int {
	registry, err := connectors.NewRegistry(o.Connectors...)
	if err != nil {
		fmt.Fprintln(problems, "trunkline:", err)
		return exitFailed
	}
	if o.Version == "" {
		o.Version = buildVersion()
	}
	a := &app{registry: registry, version: o.Version, in: in, out: out, problems: problems}
	root := a.root()
	root.AddCommand(o.Commands...)
	guard(root)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(problems)
	err = root.ExecuteContext(ctx)
	if err == nil || (ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		return exitDone
	}
	a.explain(err)
	return exitCode(err)
}

// app is what the commands share.
type app struct {
	registry connectors.Registry
	version  string
	in       io.Reader
	out      io.Writer
	problems io.Writer

	file    string   // -f
	named   bool     // -f was given
	address string   // --addr
	brokers []string // --brokers
	json    bool     // --json
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "trunkline",
		Short: "Move data from databases into derived stores, through one partitioned log",
		Long: `Trunkline reads every source once, into one partitioned log; every sink reads
the log through a consumer group of its own. pipelines.yaml says what and where.

The log speaks Kafka's protocol at log.listen, so Kafka's clients and tools read
and write it, beside the commands below.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRun: func(c *cobra.Command, _ []string) {
			a.named = c.Flags().Changed("file")
		},
	}
	root.PersistentFlags().StringVarP(&a.file, "file", "f", config.DefaultPath, "configuration `file`")
	root.AddGroup(&cobra.Group{ID: "pipeline", Title: "The pipeline:"}, &cobra.Group{ID: "log", Title: "The log:"})
	root.CompletionOptions.HiddenDefaultCmd = false
	for _, c := range []*cobra.Command{a.runCommand(), a.serveCommand(), a.initCommand(), a.checkCommand(), a.planCommand(), a.testCommand(), a.statusCommand(),
		a.verifyCommand(), a.deadLettersCommand(),
		a.controlCommand("pause", "Stop a source, a sink or one table, in good order, until resume"),
		a.controlCommand("resume", "Let what is paused, failed or before a gap go on"),
		a.controlCommand("resync", "Read a source, one of its tables, or a sink's topics anew")} {
		c.GroupID = "pipeline"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{a.topicsCommand(), a.produceCommand(), a.consumeCommand(), a.groupsCommand(), a.logCommand()} {
		c.GroupID = "log"
		root.AddCommand(c)
		if c.Name() != "log" {
			c.PersistentFlags().StringSliceVar(&a.brokers, "brokers", nil, "`host:port,…` of any Kafka, in place of the configuration's log")
		}
	}
	root.AddCommand(a.versionCommand(), a.passwordCommand())
	return root
}

// usageError is a fault of the call.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// guard makes every command report a wrong call as such, and every parent refuse what is not one of its commands.
func guard(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, c.CommandPath())
	})
	check := c.Args
	if c.HasSubCommands() {
		check = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			c.SuggestionsMinimumDistance = 2
			hint := ""
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("; did you mean %q?", near[0])
			}
			return fmt.Errorf("%q is no command of %s%s", args[0], c.CommandPath(), hint)
		}
		if c.RunE == nil && c.Run == nil {
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	if check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usagef("%w; see %s --help", err, c.CommandPath())
			}
			return nil
		}
	}
	for _, child := range c.Commands() {
		guard(child)
	}
}

// explain prints an error: one line, or one for each finding in the configuration.
func (a *app) explain(err error) {
	var findings config.Errors
	if errors.As(err, &findings) {
		fmt.Fprintln(a.problems, err)
		return
	}
	fmt.Fprintln(a.problems, "trunkline: "+strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
}

func exitCode(err error) int {
	var usage usageError
	var findings config.Errors
	var refused *api.RefusedError
	switch {
	case errors.As(err, &usage), errors.As(err, &findings):
		return exitUsage
	case errors.As(err, &refused) && refused.Code == 400:
		return exitUsage
	case errors.Is(err, connectors.ErrPositionLost):
		return exitGap
	default:
		return exitFailed
	}
}
