package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
)

// load reads the configuration that -f names.
func (a *app) load() (config.Config, error) {
	c, err := config.Load(a.file, a.registry)
	if errors.Is(err, fs.ErrNotExist) {
		if !a.named {
			return c, usagef("there is no %s here: name a configuration with -f", a.file)
		}
		return c, usagef("there is no file %s; -f names the configuration", a.file)
	}
	return c, err
}

// openLog opens the log of a configuration: this is the one place that knows both kinds.
func openLog(ctx context.Context, c config.Config, logger *slog.Logger) (log.Log, error) {
	if len(c.Log.Brokers) > 0 {
		return openCluster(ctx, c.Log.Cluster, c.Log.Topics.TopicConfig(), logger)
	}
	return openDisk(c, logger)
}

// openDisk opens the embedded log. Retention spares what the configured sinks have not read, whatever command it is that
// opens the log.
func openDisk(c config.Config, logger *slog.Logger) (*disk.Log, error) {
	journal, err := disk.Open(c.Log.Dir, disk.Options{Logger: logger, Defaults: c.Log.Topics.TopicConfig(), Unsynced: c.Log.Fsync == config.FsyncBackground})
	if err != nil {
		return nil, err
	}
	protect(journal, c)
	return journal, nil
}

// protect tells the embedded log whose unread records retention spares.
func protect(journal log.Log, c config.Config) {
	embedded, ok := journal.(*disk.Log)
	if !ok {
		return
	}
	groups := make(map[string][]string, len(c.Sinks))
	for _, s := range c.Sinks {
		groups[s.Group] = s.Topics
	}
	embedded.SetProtected(groups)
}

// withClient calls f with a client of the daemon that runs. Without one it opens the log and serves the same API in
// this process. The lock of the log says which: a port alone could belong to another pipeline.
func (a *app) withClient(c *cobra.Command, f func(ctx context.Context, client *api.Client) error) error {
	ctx := c.Context()
	if a.address != "" {
		cfg, err := a.load() // that of the daemon, if this machine has it
		if err != nil && a.named {
			return err
		}
		if err != nil {
			cfg = config.Default()
		}
		return a.dial(ctx, a.address, cfg.HTTP, "", f)
	}
	if len(a.brokers) > 0 {
		return a.withBrokers(ctx, f)
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if len(cfg.Log.Brokers) > 0 {
		return a.withCluster(ctx, cfg, f)
	}
	if _, err := os.Stat(cfg.Log.Dir); errors.Is(err, fs.ErrNotExist) && !writesLog(c) {
		return fmt.Errorf("there is no log in %s yet: trunkline run makes it", cfg.Log.Dir)
	}
	journal, err := openDisk(cfg, newLogger(a.problems, slog.LevelWarn, false))
	if errors.Is(err, log.ErrLocked) {
		if cfg.HTTP.Listen == config.Off {
			return fmt.Errorf("log %s is in use by a daemon whose http.listen is off: stop it, or open its listener", cfg.Log.Dir)
		}
		return a.dial(ctx, cfg.HTTP.Listen, cfg.HTTP, cfg.Log.Dir, f)
	}
	if err != nil {
		return err
	}
	return a.inProcess(ctx, cfg, journal, f)
}

// inProcess serves the API in this process over a log, which it closes.
func (a *app) inProcess(ctx context.Context, cfg config.Config, journal log.Log, f func(context.Context, *api.Client) error) error {
	p, err := pipeline.New(cfg, journal, pipeline.Options{Version: a.version})
	if err != nil {
		return errors.Join(err, journal.Close())
	}
	client := api.InProcess(api.New(api.Options{Pipeline: p, Journal: journal, Version: a.version, Audit: len(a.brokers) == 0}))
	err = f(ctx, client)
	return errors.Join(err, journal.Close())
}

// withBrokers calls f with a client of the Kafka that --brokers names. A configuration that has its log on a cluster
// says how to log in.
func (a *app) withBrokers(ctx context.Context, f func(context.Context, *api.Client) error) error {
	cfg := config.Default()
	if a.named {
		loaded, err := a.load()
		if err != nil {
			return err
		}
		cfg.Log.Cluster = loaded.Log.Cluster
	}
	cfg.Log.Brokers = a.brokers
	if err := cfg.Log.Validate(); err != nil {
		return usagef("--brokers: %w", err)
	}
	journal, err := openCluster(ctx, cfg.Log.Cluster, cfg.Log.Topics.TopicConfig(), newLogger(a.problems, slog.LevelWarn, false))
	if err != nil {
		return err
	}
	return a.inProcess(ctx, cfg, journal, f)
}

// withCluster calls f with a client of a daemon on this machine that works on the same cluster, for it alone knows what
// its sources and sinks do. Without one, the cluster itself tells and takes everything else.
func (a *app) withCluster(ctx context.Context, cfg config.Config, f func(context.Context, *api.Client) error) error {
	if cfg.HTTP.Listen != config.Off {
		secure, err := trust(cfg.HTTP)
		if err != nil {
			return err
		}
		client := api.Dial(cfg.HTTP.Listen, token(cfg.HTTP), secure)
		var info api.Info
		err = client.Call(ctx, "GET", "/api/info", nil, &info)
		if err == nil && info.Dir == cfg.Log.Address() {
			defer client.Close()
			return f(ctx, client)
		}
		client.Close()
	}
	journal, err := openCluster(ctx, cfg.Log.Cluster, cfg.Log.Topics.TopicConfig(), newLogger(a.problems, slog.LevelWarn, false))
	if err != nil {
		return err
	}
	return a.inProcess(ctx, cfg, journal, f)
}

// creates marks commands that may make the log.
const creates = "creates"

func writesLog(c *cobra.Command) bool { return c.Annotations[creates] != "" }

// dial calls f with a client of the daemon at address, after a look whether it is the one with the log in dir.
func (a *app) dial(ctx context.Context, address string, cfg config.HTTP, dir string, f func(context.Context, *api.Client) error) error {
	secure, err := trust(cfg)
	if err != nil {
		return err
	}
	host, named := strings.CutPrefix(strings.TrimSuffix(address, "/"), "https://")
	if named && secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if plain, found := strings.CutPrefix(host, "http://"); found {
		host, secure = plain, nil
	}
	client := api.Dial(host, token(cfg), secure)
	defer client.Close()
	var info api.Info
	if err := client.Call(ctx, "GET", "/api/info", nil, &info); err != nil {
		if refused := (*api.RefusedError)(nil); errors.As(err, &refused) {
			return fmt.Errorf("the daemon at %s refuses: %w", address, err)
		}
		if dir != "" {
			return fmt.Errorf("log %s is in use, and no daemon answers at http.listen (%s): name its address with --addr: %w", dir, address, err)
		}
		return fmt.Errorf("no daemon answers at %s: %w", address, err)
	}
	if dir != "" && !sameDir(dir, info.Dir) {
		return fmt.Errorf("the daemon at %s has the log %s, not %s: name the right address with --addr", address, info.Dir, dir)
	}
	return f(ctx, client)
}

func sameDir(a, b string) bool {
	first, err := filepath.Abs(a)
	if err != nil {
		return false
	}
	if first == filepath.Clean(b) {
		return true
	}
	one, errOne := os.Stat(first)
	two, errTwo := os.Stat(b)
	return errOne == nil && errTwo == nil && os.SameFile(one, two)
}

// facts adds the flags of a command that prints facts.
func (a *app) facts(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print JSON for machines")
	return a.remote(c)
}

// remote adds the flag of a command that can talk to a daemon.
func (a *app) remote(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&a.address, "addr", "", "`host:port` of the daemon's HTTP listener (default: http.listen of the configuration)")
	return c
}
