package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
)

func (a *app) serveCommand() *cobra.Command {
	var dir, address, format string
	c := &cobra.Command{
		Use: "serve", Short: "Serve the log alone to Kafka clients, without sources and sinks", Args: cobra.NoArgs,
		Long: `Serve the log alone to Kafka clients until a signal: no source and no sink runs,
and the configuration may be missing. Topics that sources of the configuration
write stay closed to clients.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "auto" && format != "plain" && format != "json" {
				return usagef("--log %q is not one of auto, plain, json", format)
			}
			cfg := config.Default()
			if _, err := os.Stat(a.file); a.named || !errors.Is(err, fs.ErrNotExist) {
				if cfg, err = a.load(); err != nil {
					return err
				}
			}
			if dir != "" {
				cfg.Log.Dir = dir
			}
			if address != "" {
				cfg.Log.Listen = address
				if err := cfg.Log.Validate(); err != nil {
					return usagef("--listen: %w", err)
				}
			}
			if len(cfg.Log.Brokers) > 0 {
				return usagef("log.brokers names a cluster: clients connect to its brokers, there is nothing to serve")
			}
			if cfg.Log.Listen == config.Off {
				return usagef("log.listen is off: there is nothing to serve; name an address with --listen")
			}
			logger := newLogger(a.problems, slog.LevelInfo, format == "json" || format == "auto" && !isTerminal(a.problems))
			return a.serveLog(c.Context(), cfg, logger)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "`directory` of the log (default: log.dir of the configuration)")
	c.Flags().StringVar(&address, "listen", "", "`host:port` for Kafka clients (default: log.listen of the configuration)")
	c.Flags().StringVar(&format, "log", "auto", "what to print: `auto|plain|json`; auto is plain on a terminal")
	word(c, "log", oneOf("auto", "plain", "json"))
	return c
}

// serveLog opens the log, lets clients in and waits for the end of ctx.
func (a *app) serveLog(ctx context.Context, cfg config.Config, logger *slog.Logger) (err error) {
	journal, err := openDisk(cfg, logger)
	if errors.Is(err, log.ErrLocked) {
		return fmt.Errorf("log %s is in use: another trunkline runs on it", cfg.Log.Dir)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	p, err := pipeline.New(cfg, journal, pipeline.Options{Logger: logger, Version: a.version})
	if err != nil {
		return err
	}
	clients, err := listen(cfg, journal, p.Owner, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(closeListener(clients), err) }()
	handler := api.New(a.daemonAPI(cfg, p, journal, logger))
	page, err := serve(ctx, cfg.HTTP, handler, logger)
	if err != nil {
		logger.Warn("serving without the status page", "error", err)
	}
	defer page.close()
	logger.Info("started", "log", cfg.Log.Dir, "version", a.version)
	<-ctx.Done()
	logger.Info("ended")
	return nil
}
