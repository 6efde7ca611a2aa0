package kafkaclients

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

// TestAnswersAreThoseOfKafka asks a real broker and ours the same, and compares what they say.
func TestAnswersAreThoseOfKafka(t *testing.T) {
	t.Parallel()
	if os.Getenv(skip) != "" {
		t.Skip(skip + " is set")
	}
	kafka, err := localcluster.Start(t.Context(), t.TempDir(), localcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	addresses := []string{kafka.Addresses[0], serve(t, "").address}
	for _, address := range addresses {
		fillAnswers(t, address)
	}
	for _, q := range questions() {
		var said []string
		for _, address := range addresses {
			said = append(said, q.ask(t, address))
		}
		if said[0] != said[1] {
			t.Errorf("%s: Kafka says\n%s\nand we say\n%s", q.what, said[0], said[1])
		}
	}
}

const answersTopic = "answers"

// fillAnswers makes a topic of two partitions: one has three records out of the order of their times and the first of a
// transaction that stays open, the other nothing.
func fillAnswers(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(answersTopic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 2, 1, nil, answersTopic); err != nil {
		t.Fatal(err)
	}
	for _, ms := range []int64{1000, 3000, 2000} {
		if err := c.ProduceSync(ctx, &kgo.Record{Value: []byte("x"), Timestamp: time.UnixMilli(ms)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	open, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(answersTopic),
		kgo.TransactionalID("open"), kgo.TransactionTimeout(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(open.Close)
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(ctx, &kgo.Record{Value: []byte("open"), Timestamp: time.UnixMilli(2500)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// question is some requests, and how an answer is put into words that can be compared.
type question struct {
	what     string
	requests []kmsg.Request
	say      func(kmsg.Response) string
}

// questions are in an order: the last ones delete records.
func questions() []question {
	var all []question
	times := []int64{-2, -1, 0, 1000, 1001, 2500, 3000, 3001}
	for v := int16(1); v <= 9; v++ {
		for i, first := range []int16{7, 8, 9} { // -3, -4 and -5
			if v == first {
				times = append(times, int64(-3-i))
			}
		}
		all = append(all, listOffsets("before", v, 0, times))
		if v >= 2 {
			all = append(all, listOffsets("before", v, 1, times))
		}
	}
	all = append(all, describeConfigs("null names", nil), describeConfigs("no names", []string{}),
		describeConfigs("names", []string{"retention.ms", "there.is.no.such.setting"}))
	nothing := kmsg.NewPtrDescribeConfigsRequest()
	nothing.Version = 4
	all = append(all, question{"settings of nothing", []kmsg.Request{nothing}, func(r kmsg.Response) string {
		return fmt.Sprint(len(r.(*kmsg.DescribeConfigsResponse).Resources))
	}})
	for _, offset := range []int64{99, -2, 1, 0, -1} {
		all = append(all, deleteRecords(offset))
	}
	// But for -3, the record with the largest time: Kafka goes on to name one that is deleted.
	times = slices.DeleteFunc(times, func(at int64) bool { return at == -3 })
	return append(all, listOffsets("after", 9, 0, times), listOffsets("after", 9, 1, times))
}

// listOffsets asks for the offsets of times, of both partitions and of one that is none.
func listOffsets(when string, version int16, isolation int8, times []int64) question {
	q := question{what: fmt.Sprintf("offsets %s, version %d, isolation %d", when, version, isolation), say: func(r kmsg.Response) string {
		var out strings.Builder
		for _, p := range r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			fmt.Fprintf(&out, "%d: offset %d at %d, epoch %d, error %d; ", p.Partition, p.Offset, p.Timestamp, p.LeaderEpoch, p.ErrorCode)
		}
		return out.String()
	}}
	for _, at := range times {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID, req.IsolationLevel = version, -1, isolation
		topic := kmsg.ListOffsetsRequestTopic{Topic: answersTopic}
		for n := range int32(3) {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = n, at
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
		q.requests = append(q.requests, req)
	}
	return q
}

func describeConfigs(what string, names []string) question {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, answersTopic, names
	unknown := resource
	unknown.ResourceName = "nobody-knows"
	req.Resources = append(req.Resources, resource, unknown)
	return question{"settings, " + what, []kmsg.Request{req}, func(r kmsg.Response) string {
		var out []string
		for _, resource := range r.(*kmsg.DescribeConfigsResponse).Resources {
			out = append(out, fmt.Sprintf("%s: error %d", resource.ResourceName, resource.ErrorCode))
			for _, c := range resource.Configs {
				if slices.Contains([]string{"retention.ms", "cleanup.policy", "max.message.bytes", "there.is.no.such.setting"}, c.Name) {
					out = append(out, fmt.Sprintf("%s %s, type %d, read only %v", resource.ResourceName, c.Name, c.ConfigType, c.ReadOnly))
				}
			}
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}}
}

func deleteRecords(offset int64) question {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 60_000
	topic := kmsg.DeleteRecordsRequestTopic{Topic: answersTopic}
	for n := range int32(3) {
		topic.Partitions = append(topic.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: n, Offset: offset})
	}
	req.Topics = append(req.Topics, topic)
	return question{fmt.Sprint("delete records below ", offset), []kmsg.Request{req}, func(r kmsg.Response) string {
		var out []string
		for _, p := range r.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions {
			out = append(out, fmt.Sprintf("%d: low watermark %d, error %d", p.Partition, p.LowWatermark, p.ErrorCode))
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}}
}

// ask sends requests in exactly their versions, one after the other, and returns what is said to all of them.
func (q question) ask(t *testing.T, address string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, req := range q.requests {
		if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("ask")).AppendRequest(nil, req, int32(i))); err != nil {
			t.Fatal(err)
		}
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			t.Fatalf("%s at %s: %v", q.what, address, err)
		}
		b := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatal(err)
		}
		reader, resp := kbin.Reader{Src: b}, req.ResponseKind()
		reader.Int32()
		if resp.IsFlexible() {
			kmsg.SkipTags(&reader)
		}
		if err := resp.ReadFrom(reader.Src); err != nil {
			t.Fatalf("%s at %s: %v", q.what, address, err)
		}
		out = append(out, q.say(resp))
	}
	return strings.Join(out, "\n")
}
