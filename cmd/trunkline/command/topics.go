package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
)

func (a *app) topicsCommand() *cobra.Command {
	c := &cobra.Command{Use: "topics", Short: "List, describe, create and delete topics"}
	c.AddCommand(a.topicsList(), a.topicsDescribe(), a.topicsCreate(), a.topicsDelete())
	return c
}

func (a *app) topicsList() *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use: "list", Short: "List topics with what they hold", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				path := "/api/topics"
				if internal {
					path += "?internal"
				}
				var topics []pipeline.TopicStatus
				if err := client.Call(ctx, "GET", path, nil, &topics); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(topics)
				}
				g := newGrid(a.out, "TOPIC", "PARTITIONS", "RECORDS", "SIZE")
				for _, t := range topics {
					g.row(t.Name, t.Partitions, count(t.Records), size(t.Bytes))
				}
				return g.flush()
			})
		},
	}
	c.Flags().BoolVar(&internal, "internal", false, "the internal topics too")
	return a.facts(c)
}

func (a *app) topicsDescribe() *cobra.Command {
	return words(a.facts(&cobra.Command{
		Use: "describe TOPIC", Short: "Show a topic's partitions and settings", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				var t api.Topic
				if err := client.Call(ctx, "GET", api.Path("api", "topics", args[0]), nil, &t); err != nil {
					return err
				}
				return a.printTopic(t)
			})
		},
	}), a.topicNames)
}

func (a *app) printTopic(t api.Topic) error {
	if a.json {
		return a.printJSON(t)
	}
	settings := make([]string, 0, len(t.Config))
	for _, name := range slices.Sorted(maps.Keys(t.Config)) {
		settings = append(settings, name+"="+t.Config[name])
	}
	fmt.Fprintf(a.out, "%s\n%s\n\n", t.Name, strings.Join(settings, " "))
	if len(t.Partitions) > 0 && t.Partitions[0].Leader != nil {
		g := newGrid(a.out, "PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "HIGH WATERMARK", "STABLE", "RECORDS", "SIZE")
		for _, p := range t.Partitions {
			g.row(p.Partition, *p.Leader, brokers(p.Replicas), brokers(p.InSync), p.LogStart, p.HighWatermark, p.LastStable,
				count(p.Records), size(p.Bytes))
		}
		return g.flush()
	}
	g := newGrid(a.out, "PARTITION", "START", "END", "STABLE", "RECORDS", "SIZE", "SEGMENTS")
	for _, p := range t.Partitions {
		g.row(p.Partition, p.LogStart, p.HighWatermark, p.LastStable, count(p.Records), size(p.Bytes), p.Segments)
	}
	return g.flush()
}

// brokers lists the ids of brokers.
func brokers(ids []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}

func (a *app) topicsCreate() *cobra.Command {
	var body api.NewTopic
	c := &cobra.Command{
		Use: "create TOPIC", Short: "Create a topic", Args: cobra.ExactArgs(1), Annotations: map[string]string{creates: "log"},
		Example: "  trunkline topics create orders --partitions 8 --config retention.ms=-1 --config cleanup.policy=compact",
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("partitions") && body.Partitions < 1 {
				return usagef("--partitions must be at least 1")
			}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				var t api.Topic
				if err := client.Call(ctx, "PUT", api.Path("api", "topics", args[0]), body, &t); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(t)
				}
				_, err := fmt.Fprintf(a.out, "created topic %s with %d partitions\n", t.Name, len(t.Partitions))
				return err
			})
		},
	}
	c.Flags().Int32Var(&body.Partitions, "partitions", 0, "number of partitions (default: log.topics.partitions)")
	c.Flags().StringToStringVar(&body.Config, "config", nil, "a setting, under Kafka's name or the one of log.topics (`key=value`; may be repeated)")
	return a.facts(c)
}

func (a *app) topicsDelete() *cobra.Command {
	return words(a.facts(&cobra.Command{
		Use: "delete TOPIC", Short: "Delete a topic with its records", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				if err := client.Call(ctx, "DELETE", api.Path("api", "topics", args[0]), nil, nil); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(a.out, "deleted topic %s\n", args[0])
				return err
			})
		},
	}), a.topicNames)
}
