package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
)

// Limits of the HTTP server. An answer may take long: consume --follow never ends.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	closeTimeout  = 2 * time.Second
)

// runFlags is what run can be told.
type runFlags struct {
	once   bool
	only   []string
	length time.Duration
	drain  time.Duration
	format string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run", Short: "Run all sources and sinks until a signal", Args: cobra.NoArgs,
		Long: `Run all sources and sinks until a signal. The first SIGTERM or Ctrl-C lets what is
in hand become durable and ends with 0; a second one ends at once.

--once reads every source to its present end, lets every sink catch up, and exits:
with 0 when all is done, with 3 when a source's position is lost, else with 1.

SIGHUP takes up a changed configuration: what was not changed goes on, what was
changed ends in good order and begins anew. A file that is not valid changes nothing.

Kafka's clients can connect to log.listen; off closes it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.format != "auto" && f.format != "plain" && f.format != "json" {
				return usagef("--log %q is not one of auto, plain, json", f.format)
			}
			return a.run(c.Context(), f)
		},
	}
	c.Flags().BoolVar(&f.once, "once", false, "read every source to its present end, let the sinks catch up, and exit")
	c.Flags().StringSliceVar(&f.only, "only", nil, "run only these sources and sinks (`NAME,…`)")
	c.Flags().DurationVar(&f.length, "for", 0, "end in good order after this `duration`")
	c.Flags().DurationVar(&f.drain, "drain-timeout", 30*time.Second, "how long what is in hand may take to end")
	c.Flags().StringVar(&f.format, "log", "auto", "what to print: `auto|plain|json`; auto is plain on a terminal")
	word(c, "only", a.memberNames)
	word(c, "log", oneOf("auto", "plain", "json"))
	return c
}

func (a *app) run(ctx context.Context, f runFlags) (err error) {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if len(cfg.Sources)+len(cfg.Sinks) == 0 {
		return usagef("%s has no sources and no sinks: there is nothing to run", a.file)
	}
	logger := newLogger(a.problems, slog.LevelInfo, f.format == "json" || f.format == "auto" && !isTerminal(a.problems))
	if err := checkTransforms(cfg); err != nil { // a step that fits nothing is one sink's trouble, if any's
		logger.Warn("transforms do not fit the tables in the log", "error", err)
	}
	journal, err := openLog(ctx, cfg, logger)
	if errors.Is(err, log.ErrLocked) {
		return fmt.Errorf("log %s is in use: another trunkline runs on it (trunkline status shows what it does)", cfg.Log.Dir)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	spill, clean, err := spillDir(cfg)
	if err != nil {
		return err
	}
	defer clean()
	tracer, endTraces, err := a.openTracer(ctx, cfg, logger)
	if err != nil {
		return err
	}
	defer endTraces()
	p, err := pipeline.New(cfg, journal, pipeline.Options{
		Logger: logger, Only: f.only, Once: f.once, DrainTimeout: f.drain, Version: a.version, Tracer: tracer, SpillDir: spill,
	})
	if errors.Is(err, pipeline.ErrUnknown) {
		return usagef("--only %w", err)
	}
	if err != nil {
		return err
	}
	clients, err := listen(cfg, journal, p.Owner, logger)
	if err != nil && !f.once {
		return err
	}
	if err != nil { // a job that ends needs no visitors
		logger.Warn("running without the listener for Kafka clients", "error", err)
	}
	defer func() { err = errors.Join(closeListener(clients), err) }()
	handler := api.New(a.daemonAPI(cfg, p, journal, logger))
	server, err := serve(ctx, cfg.HTTP, handler, logger)
	if err != nil && !f.once && len(cfg.Log.Brokers) == 0 {
		return err
	}
	if err != nil { // several processes on a cluster can have one configuration
		logger.Warn("running without the status page", "error", err)
	}
	defer server.close()
	logger.Info("started", "log", p.Dir(), "sources", len(cfg.Sources), "sinks", len(cfg.Sinks), "version", a.version)
	stop := a.reloadAtHangup(ctx, p, journal, logger)
	defer stop()
	return a.supervise(ctx, p, f, logger)
}

// reloadAtHangup takes up the configuration anew at each SIGHUP. A file that is not valid changes nothing.
func (a *app) reloadAtHangup(ctx context.Context, p *pipeline.Pipeline, journal log.Log, logger *slog.Logger) (stop func()) {
	hangups, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	var heard sync.WaitGroup
	heard.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-hangups:
				a.reload(ctx, p, journal, logger)
			}
		}
	})
	return func() {
		signal.Stop(hangups)
		close(ended)
		heard.Wait()
	}
}

func (a *app) reload(ctx context.Context, p *pipeline.Pipeline, journal log.Log, logger *slog.Logger) {
	cfg, err := a.load()
	if err != nil {
		logger.Error("the configuration is not valid, the old one stays", "file", a.file, "error", err)
		return
	}
	protect(journal, cfg)
	done, err := p.Reload(ctx, cfg)
	if err != nil {
		logger.Error("the configuration was not taken up", "file", a.file, "error", err)
		return
	}
	if done.None() {
		logger.Info("the configuration is the same", "file", a.file)
		return
	}
	logger.Info("took up the configuration", "file", a.file, "added", strings.Join(done.Added, ", "), "changed", strings.Join(done.Changed, ", "),
		"removed", strings.Join(done.Removed, ", "))
	if len(done.Later) > 0 {
		logger.Warn("these settings count from the next start on", "settings", strings.Join(done.Later, ", "))
	}
}

// spillDir returns a folder of this process's own where processes share a log and may share a disk; empty: the default.
func spillDir(cfg config.Config) (dir string, clean func(), err error) {
	if len(cfg.Log.Brokers) == 0 {
		return "", func() {}, nil
	}
	parent := filepath.Dir(filepath.Clean(cfg.Log.Dir))
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return "", nil, fmt.Errorf("make folder for spill files: %w", err)
	}
	if dir, err = os.MkdirTemp(parent, "spill-"); err != nil {
		return "", nil, fmt.Errorf("make folder for spill files: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // what stays takes room and no more
}

// supervise runs the pipeline and tells how it goes.
func (a *app) supervise(ctx context.Context, p *pipeline.Pipeline, f runFlags, logger *slog.Logger) error {
	if f.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.length)
		defer cancel()
	}
	stop := context.AfterFunc(ctx, func() { logger.Info("draining; a second signal ends at once") })
	defer stop()
	tellCtx, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var telling sync.WaitGroup
	telling.Go(func() { tell(tellCtx, p, logger) })
	started := time.Now()
	err := p.Run(ctx)
	quiet()
	telling.Wait()
	if err != nil {
		return err
	}
	logger.Info("ended", "after", time.Since(started).Round(time.Millisecond).String())
	return nil
}

// server is the HTTP listener; nil when it is off.
type server struct {
	http   *http.Server
	cancel context.CancelFunc // ends the requests that still run
	done   sync.WaitGroup
}

// serve opens the listener and answers until close.
func serve(ctx context.Context, cfg config.HTTP, handler http.Handler, logger *slog.Logger) (*server, error) {
	if cfg.Listen == config.Off {
		return nil, nil
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("open http.listen: %w: choose another address in the configuration, or off", err)
	}
	listener, scheme, err := secured(listener, cfg, logger)
	if err != nil {
		return nil, err
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{cancel: cancel, http: &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}}
	s.done.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("status page and API ended", "error", err)
		}
	})
	logger.Info("status page at " + scheme + "://" + listener.Addr().String())
	return s, nil
}

// close ends what is being answered and joins the server's goroutines.
func (s *server) close() {
	if s == nil {
		return
	}
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // the time for good order is over
	}
	s.done.Wait()
}
