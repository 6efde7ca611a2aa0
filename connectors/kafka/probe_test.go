package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/connectors/kafka"
)

// TestOnceEndsWhereNothingIsLeft has a topic of three records that ends at offset 6: compaction took the last three, and the
// broker sends nothing of them. The answers behind the third record are the test's, in the broker's form.
func TestOnceEndsWhereNothingIsLeft(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	o := another(t, c.ListenAddrs())
	o.topic("t", 1)
	for range 3 {
		o.put("t", 0, "k", "v")
	}
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, topic := range req.Topics {
			out := kmsg.NewListOffsetsResponseTopic()
			out.Topic = topic.Topic
			for _, p := range topic.Partitions {
				part := kmsg.NewListOffsetsResponseTopicPartition()
				part.Partition, part.Timestamp, part.LeaderEpoch = p.Partition, -1, p.CurrentLeaderEpoch
				if part.Offset = 6; p.Timestamp == -2 { // the earliest
					part.Offset = 0
				}
				out.Partitions = append(out.Partitions, part)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.FetchRequest)
		if len(req.Topics) == 0 || req.Topics[0].Partitions[0].FetchOffset < 3 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		out := kmsg.NewFetchResponseTopic()
		out.Topic, out.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		part := kmsg.NewFetchResponseTopicPartition()
		part.HighWatermark, part.LastStableOffset, part.LogStartOffset = 6, 6, 0
		out.Partitions = append(out.Partitions, part)
		resp.Topics = append(resp.Topics, out)
		return resp, nil, true
	})
	got, at := mustDrain(t, reading(t, c.ListenAddrs(), func(c *kafka.SourceConfig) { c.Group = "off" }), nil)
	if len(got) != 3 || !strings.Contains(string(at), `"next":{"t":{"0":6}}`) {
		t.Errorf("%d records, position %s; want 3, and the end at 6", len(got), at)
	}
}
