package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
)

// admin asks a cluster as an operator would, beside the log.
func admin(t *testing.T, brokers []string) *kadm.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

func TestTopicsAreMadeWithTheReplicasThatAreWanted(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.NumBrokers(3))
	l := open(t, kafka.Options{Brokers: brokers, Replication: 3, MinInSync: 2})
	defer l.Close()
	if err := l.CreateTopic(t.Context(), "orders", log.TopicConfig{Partitions: 5}); err != nil {
		t.Fatal(err)
	}
	configs, err := admin(t, brokers).DescribeTopicConfigs(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, c := range configs[0].Configs {
		settings[c.Key] = c.MaybeValue()
	}
	if settings["min.insync.replicas"] != "2" {
		t.Errorf("min.insync.replicas is %q, want 2", settings["min.insync.replicas"])
	}
	topic, err := l.Topic(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if len(topic.Partitions) != 5 {
		t.Errorf("%d partitions, want 5", len(topic.Partitions))
	}
	for i, p := range topic.Partitions {
		if len(p.Replicas) != 3 || len(p.InSync) != 3 || p.Leader < 0 {
			t.Errorf("partition %d: leader %d, replicas %v, in sync %v", i, p.Leader, p.Replicas, p.InSync)
		}
	}
}

// Consumers of the log are members that other tools of the cluster see, and that give up no more than they have to.
func TestConsumersAreCooperativeMembersOfTheirGroup(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	l := open(t, kafka.Options{Brokers: brokers})
	defer l.Close()
	if err := l.CreateTopic(t.Context(), "orders", log.TopicConfig{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, err := l.Consumer(t.Context(), log.ConsumerOptions{Group: "warehouse", Topics: []string{"orders"}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			for {
				if _, err := c.Poll(ctx, 1); ctx.Err() != nil || err != nil {
					return
				}
			}
		}()
		defer func() {
			cancel()
			<-ended
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
	}
	a := admin(t, brokers)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		groups, err := a.DescribeGroups(t.Context(), "warehouse")
		if err != nil {
			t.Fatal(err)
		}
		g := groups["warehouse"]
		if g.State == "Stable" && g.Protocol == "cooperative-sticky" && len(g.Members) == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the group is %s by %q with %d members", g.State, g.Protocol, len(g.Members))
		}
	}
}
