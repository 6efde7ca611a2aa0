package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
)

// A right that is missing is said, and not waited for.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	defer l.Close()
	tp := log.TopicPartition{Topic: "orders"}
	if err := l.CreateTopic(t.Context(), tp.Topic, log.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	c.ControlKey(kmsg.JoinGroup.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	consumer, err := l.Consumer(t.Context(), log.ConsumerOptions{Group: "sink", Topics: []string{tp.Topic}})
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err = consumer.Poll(ctx, 1); err == nil || !strings.Contains(err.Error(), "GROUP_AUTHORIZATION_FAILED") {
		t.Errorf("poll: %v", err)
	}
}
