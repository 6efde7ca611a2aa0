package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
	"github.com/trunkline/trunkline/pipeline/config"
)

// mirrorFlags says which cluster the log is copied to.
type mirrorFlags struct {
	brokers     []string
	replication int
	file        string
}

func (a *app) logMirror() *cobra.Command {
	var f mirrorFlags
	c := &cobra.Command{
		Use: "mirror --to BROKERS", Short: "Copy the embedded log to a Kafka cluster", Args: cobra.NoArgs,
		Long: `Copy the embedded log to a Kafka cluster: topics with their settings, records with the
same offsets, what groups have committed, and the positions of sources. Stop the daemon
before. Afterwards put log.brokers in place of log.dir and start it: every source and
every sink goes on where it stood.

A mirror that was interrupted goes on where it ended when it is started again. Brokers
count retention from the records' own times.`,
		Example: "  trunkline log mirror --to kafka-1:9092,kafka-2:9092 --replication 3\n  trunkline log mirror --to-config cluster.yaml     # takes brokers, tls and sasl from its log section",
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, err := a.mirrorTarget(f)
			if err != nil {
				return err
			}
			return a.mirror(c.Context(), cluster)
		},
	}
	c.Flags().StringSliceVar(&f.brokers, "to", nil, "`host:port,…` of brokers")
	c.Flags().StringVar(&f.file, "to-config", "", "a configuration (`file`) whose log section names the cluster")
	c.Flags().IntVar(&f.replication, "replication", 0, "copies of each partition (default: what the brokers are set to)")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON for machines")
	return c
}

// mirrorTarget reads the flags.
func (a *app) mirrorTarget(f mirrorFlags) (config.Cluster, error) {
	if (len(f.brokers) > 0) == (f.file != "") {
		return config.Cluster{}, usagef("name the cluster with --to or with --to-config")
	}
	if f.file != "" {
		c, err := config.Load(f.file, a.registry)
		if err == nil && len(c.Log.Brokers) == 0 {
			err = usagef("%s names no log.brokers", f.file)
		}
		return c.Log.Cluster, err
	}
	l := config.Default().Log
	l.Brokers, l.Replication = f.brokers, f.replication
	if err := l.Validate(); err != nil {
		return config.Cluster{}, usagef("--to: %w", err)
	}
	return l.Cluster, nil
}

func (a *app) mirror(ctx context.Context, cluster config.Cluster) (err error) {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if len(cfg.Log.Brokers) > 0 {
		return usagef("%s has its log on a cluster already: name the configuration of the embedded log with -f", a.file)
	}
	logger := newLogger(a.problems, slog.LevelInfo, a.json)
	from, err := openDisk(cfg, logger)
	if errors.Is(err, log.ErrLocked) {
		return fmt.Errorf("log %s is in use: stop the daemon before its log is copied", cfg.Log.Dir)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := openCluster(ctx, cluster, cfg.Log.Topics.TopicConfig(), logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	o := kafka.MirrorOptions{Logger: logger}
	for _, s := range cfg.Sources {
		o.Producers = append(o.Producers, s.Name)
	}
	done, err := to.Mirror(ctx, from, o)
	if err != nil {
		return fmt.Errorf("mirror log %s: %w", cfg.Log.Dir, err)
	}
	if a.json {
		return a.printJSON(done)
	}
	_, err = fmt.Fprintf(a.out, "%s has %d topics (%s records copied), the offsets of %d groups and the positions of %d sources\n"+
		"put brokers: [%s] in place of dir: %s in %s and start it again\n", to.Address(), done.Topics, count(done.Records), done.Groups,
		done.Marks, strings.Join(cluster.Brokers, ", "), cfg.Log.Dir, a.file)
	return err
}
