// Command sarama lets IBM's Go client at the log: topics, producers of every kind, a group, transactions.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	bootstrap := os.Getenv("BOOTSTRAP")
	if bootstrap == "" {
		bootstrap = "127.0.0.1:9092"
	}
	for _, v := range []sarama.KafkaVersion{sarama.V2_1_0_0, sarama.V2_8_0_0, sarama.V4_0_0_0} {
		c := &check{brokers: []string{bootstrap}, version: v, topic: "sarama-" + strings.ReplaceAll(v.String(), ".", "-")}
		c.run()
		fmt.Println("sarama as of", v, "ok")
	}
}

// check is one run with one version of the protocol.
type check struct {
	brokers []string
	version sarama.KafkaVersion
	topic   string
}

func must(err error, doing string) {
	if err != nil {
		fmt.Fprintln(os.Stderr, doing+":", err)
		os.Exit(1)
	}
}

func (c *check) config() *sarama.Config {
	o := sarama.NewConfig()
	o.Version = c.version
	o.Producer.Return.Successes = true
	o.Producer.RequiredAcks = sarama.WaitForAll
	o.Consumer.Offsets.Initial = sarama.OffsetOldest
	o.Consumer.IsolationLevel = sarama.ReadCommitted
	return o
}

func (c *check) run() {
	admin, err := sarama.NewClusterAdmin(c.brokers, c.config())
	must(err, "open admin")
	must(admin.CreateTopic(c.topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false), "create topic")
	n := c.produce()
	c.consume(admin, n)
	c.transact()
	c.assign(n)
	must(admin.DeleteTopic(c.topic), "delete topic")
	must(admin.Close(), "close admin")
}

// produce writes with every codec, and as an idempotent producer.
func (c *check) produce() (sent int) {
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD}
	for i, codec := range append(codecs, sarama.CompressionNone) {
		o := c.config()
		o.Producer.Compression = codec
		if o.Producer.Idempotent = i == len(codecs); o.Producer.Idempotent {
			o.Net.MaxOpenRequests = 1
		}
		p, err := sarama.NewSyncProducer(c.brokers, o)
		must(err, "open producer")
		for n := range 20 {
			key := fmt.Sprintf("%d-%d", i, n)
			_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: c.topic, Key: sarama.StringEncoder(key), Value: sarama.StringEncoder(strings.Repeat(key, 50)),
				Headers: []sarama.RecordHeader{{Key: []byte("trace"), Value: []byte(key)}}})
			must(err, "send with "+codec.String())
			sent++
		}
		must(p.Close(), "close producer")
	}
	return sent
}

// reader notes what a group's member gets.
type reader struct {
	mu   sync.Mutex
	seen map[string]int
	want int
	done context.CancelFunc
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		r.mu.Lock()
		r.seen[string(m.Key)]++
		if len(r.seen) >= r.want {
			r.done()
		}
		r.mu.Unlock()
		s.MarkMessage(m, "")
	}
	return nil
}

// consume reads all as a group of two, and shows that it would not be read again.
func (c *check) consume(admin sarama.ClusterAdmin, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r := &reader{seen: map[string]int{}, want: n, done: cancel}
	var members sync.WaitGroup
	for range 2 {
		g, err := sarama.NewConsumerGroup(c.brokers, c.topic, c.config())
		must(err, "join group")
		members.Go(func() {
			for ctx.Err() == nil {
				if err := g.Consume(ctx, []string{c.topic}, r); err != nil && ctx.Err() == nil {
					must(err, "consume")
				}
			}
			must(g.Close(), "leave group")
		})
	}
	members.Wait()
	if len(r.seen) != n {
		must(fmt.Errorf("%d records of %d", len(r.seen), n), "read as a group")
	}
	offsets, err := admin.ListConsumerGroupOffsets(c.topic, nil)
	must(err, "list offsets of the group")
	var committed int64
	for _, b := range offsets.Blocks[c.topic] {
		committed += b.Offset
	}
	if committed != int64(n) {
		must(fmt.Errorf("%d offsets of %d", committed, n), "commit")
	}
	must(admin.DeleteConsumerGroup(c.topic), "delete group")
}

// transact commits one transaction and aborts another.
func (c *check) transact() {
	o := c.config()
	o.Producer.Idempotent, o.Net.MaxOpenRequests = true, 1
	o.Producer.Transaction.ID = c.topic
	p, err := sarama.NewSyncProducer(c.brokers, o)
	must(err, "open transactional producer")
	for _, commit := range []bool{true, false} {
		must(p.BeginTxn(), "begin")
		_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: c.topic, Partition: 0, Key: sarama.StringEncoder(fmt.Sprintf("committed %v", commit)), Value: sarama.StringEncoder("x")})
		must(err, "send in a transaction")
		if commit {
			must(p.CommitTxn(), "commit")
		} else {
			must(p.AbortTxn(), "abort")
		}
	}
	must(p.Close(), "close transactional producer")
}

// assign reads every partition by hand; of the transactions only what was committed.
func (c *check) assign(n int) {
	consumer, err := sarama.NewConsumer(c.brokers, c.config())
	must(err, "open consumer")
	got := map[string]bool{}
	partitions, err := consumer.Partitions(c.topic)
	must(err, "partitions")
	client, err := sarama.NewClient(c.brokers, c.config())
	must(err, "open client")
	messages := make(chan *sarama.ConsumerMessage)
	var open []sarama.PartitionConsumer
	var forwarding sync.WaitGroup
	for _, p := range partitions {
		first, err := client.GetOffset(c.topic, p, sarama.OffsetOldest)
		must(err, "oldest offset")
		pc, err := consumer.ConsumePartition(c.topic, p, first)
		must(err, "read partition")
		open = append(open, pc)
		forwarding.Go(func() {
			for m := range pc.Messages() {
				messages <- m
			}
		})
	}
	for deadline := time.After(time.Minute); len(got) < n+1; {
		select {
		case m := <-messages:
			got[string(m.Key)] = true
		case <-deadline:
			must(fmt.Errorf("%d records of %d", len(got), n+1), "read by hand")
		}
	}
	if !got["committed true"] || got["committed false"] {
		must(fmt.Errorf("committed %v, aborted %v", got["committed true"], got["committed false"]), "read transactions")
	}
	for _, pc := range open {
		pc.AsyncClose()
	}
	go func() { forwarding.Wait(); close(messages) }()
	for range messages {
	}
	must(client.Close(), "close client")
	must(consumer.Close(), "close consumer")
}
