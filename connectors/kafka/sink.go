// Package kafka writes changes into topics of a Kafka cluster, another one than that of the log, and reads them.
//
// As a sink it promises each change exactly once to readers of committed records: the records of a batch and the position of its
// stream are one transaction, and a newer writer of the same stream fences the older one. The order within a key is kept.
// Each stream has a transactional producer of its own.
//
// As a source it promises each committed record once, in the order of its partition: the offsets are its position, stored
// with the rows, and the cluster's own group is told them only for people who watch the lag. Records that were deleted before
// they were read are a lost position. The pipeline calls both.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/connectors"
)

// sink is used by one goroutine.
type sink struct {
	config    *SinkConfig
	env       connectors.Env
	client    *kgo.Client // for everything that is no transaction
	admin     *kadm.Client
	producers map[string]*producer
	topics    map[string]bool // that are there
	names     connectors.Memo // of topics
}

// producer writes one stream.
type producer struct {
	client   *kgo.Client
	position connectors.Position
	err      error // why it is of no use any more
}

func open(ctx context.Context, c *SinkConfig, env connectors.Env) (connectors.Sink, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, env: env, client: client, admin: kadm.NewClient(client), producers: map[string]*producer{}, topics: map[string]bool{}}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("open kafka: %w", translate(err))
	}
	if err := s.ensure(ctx, positions, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}); err != nil {
		client.Close()
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	return s, nil
}

// translate gives the errors that a pipeline reacts to their names.
func translate(err error) error {
	for _, fenced := range []error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping} {
		if errors.Is(err, fenced) {
			return fmt.Errorf("%w: %w", connectors.ErrFenced, err)
		}
	}
	for _, refused := range []error{kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.InvalidTopicException} {
		if errors.Is(err, refused) {
			return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
	}
	return err
}

// ensure makes a topic that is not there.
func (s *sink) ensure(ctx context.Context, topic string, partitions int, config map[string]*string) error {
	if s.topics[topic] {
		return nil
	}
	copies := s.config.Replication
	if copies == 0 {
		copies = -1
	}
	if partitions == 0 {
		partitions = -1
	}
	_, err := s.admin.CreateTopic(ctx, int32(partitions), int16(copies), config, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", topic, translate(err))
	}
	s.topics[topic] = true
	return nil
}

// Committed claims the stream and returns its position.
func (s *sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	if p := s.producers[stream]; p != nil {
		p.client.Close()
		delete(s.producers, stream)
	}
	p, err := s.producer(ctx, stream)
	if err != nil {
		return nil, err
	}
	return p.position, nil
}

// producer returns the producer of a stream. A new one fences the older, whose open transaction is aborted; only then is
// the position read.
func (s *sink) producer(ctx context.Context, stream string) (*producer, error) {
	if p := s.producers[stream]; p != nil {
		return p, p.err
	}
	id := s.env.Group + "/" + stream
	client, err := s.config.client(kgo.TransactionalID("trunkline.sink."+id), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return nil, err
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("claim %s: %w", stream, translate(err))
	}
	position, err := s.read(ctx, id)
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("read position of %s: %w", stream, translate(err))
	}
	p := &producer{client: client, position: position}
	s.producers[stream] = p
	return p, nil
}

// Write makes the batch and its position durable in one transaction.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := s.producer(ctx, b.Stream)
	if err != nil {
		return err
	}
	records, err := s.records(ctx, p, b)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return nil
	}
	if err := p.commit(ctx, records); err != nil {
		var rows *connectors.RowsError
		if errors.As(err, &rows) {
			return rows
		}
		p.err = err
		return fmt.Errorf("write batch of %s: %w", b.Stream, err)
	}
	if b.Position != nil {
		p.position = append(connectors.Position(nil), b.Position...)
	}
	return nil
}

// outgoing is a record and the change that it is of, -1 for a position.
type outgoing struct {
	record *kgo.Record
	index  int
}

// records returns the records of a batch, without those that were written before, and that of its position.
func (s *sink) records(ctx context.Context, p *producer, b connectors.Batch) ([]outgoing, error) {
	next, err := strconv.ParseInt(string(p.position), 10, 64)
	if err != nil {
		next = 0
	}
	var out []outgoing
	size := 0 // of a line, as far as it is known
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Offset < next || s.config.Deletes == ignoreDeletes && (c.Op == connectors.Delete || c.Op == connectors.Truncate) {
			continue
		}
		topic := s.names.Of(b.Stream, c.Table, func() string { return s.config.topic(b.Stream, c.Table) })
		if err := s.ensure(ctx, topic, s.config.Partitions, nil); err != nil {
			return nil, err
		}
		line := connectors.AppendLine(make([]byte, 0, size), b.Stream, c)
		size = len(line) + len(line)/8
		r := &kgo.Record{Topic: topic, Key: keyOf(c), Value: line[:len(line)-1], Timestamp: c.Time}
		out = append(out, outgoing{r, i})
		if c.Op == connectors.Delete && s.config.Tombstones && r.Key != nil {
			out = append(out, outgoing{&kgo.Record{Topic: topic, Key: r.Key, Timestamp: c.Time}, i})
		}
	}
	if b.Position != nil {
		out = append(out, outgoing{&kgo.Record{Topic: positions, Key: []byte(s.env.Group + "/" + b.Stream), Value: append([]byte(nil), b.Position...)}, -1})
	}
	return out, nil
}

// keyOf returns the key of a row as a JSON object, as records of the log have it; nil without one.
func keyOf(c *connectors.Change) []byte {
	row := c.After
	if row == nil {
		row = c.Before
	}
	if c.Table == nil || len(c.Table.Key) == 0 || row == nil {
		return nil
	}
	key := []byte{'{'}
	for i, k := range c.Table.Key {
		if i > 0 {
			key = append(key, ',')
		}
		key = append(connectors.AppendJSONString(key, []byte(c.Table.Columns[k].Name)), ':')
		key = connectors.AppendJSON(key, row[k])
	}
	return append(key, '}')
}

// commit sends records in a transaction. When one is too large for its topic, all are given up and it is named.
func (p *producer) commit(ctx context.Context, records []outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	if err := p.client.BeginTransaction(); err != nil {
		return translate(err)
	}
	var mu sync.Mutex
	var failed error
	var refused []connectors.RowError
	for _, o := range records {
		p.client.Produce(ctx, o.record, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
			case errors.Is(err, kerr.MessageTooLarge) && o.index >= 0:
				refused = append(refused, connectors.RowError{Index: o.index, Err: errors.New("the record is larger than its topic takes (max.message.bytes)")})
			case failed == nil || errors.Is(failed, context.Canceled):
				failed = err
			}
		})
	}
	flushed := p.client.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	if failed == nil {
		failed = flushed
	}
	if failed == nil && len(refused) == 0 {
		if err := p.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return translate(err)
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err() // the next producer of the stream aborts what is open
	}
	abort, end := context.WithTimeout(ctx, requestTime)
	defer end()
	err := errors.Join(p.client.AbortBufferedRecords(abort), p.client.EndTransaction(abort, kgo.TryAbort))
	if len(refused) > 0 && err == nil {
		return &connectors.RowsError{Rows: distinct(refused)}
	}
	return translate(errors.Join(failed, err))
}

// distinct puts refused rows in order, each once.
func distinct(rows []connectors.RowError) []connectors.RowError {
	byIndex := map[int]connectors.RowError{}
	last := -1
	for _, r := range rows {
		byIndex[r.Index] = r
		last = max(last, r.Index)
	}
	out := rows[:0]
	for i := range last + 1 {
		if r, ok := byIndex[i]; ok {
			out = append(out, r)
		}
	}
	return out
}

// Close ends all connections. A transaction that is open is aborted by the next writer, or by its time.
func (s *sink) Close(context.Context) error {
	for _, p := range s.producers {
		p.client.Close()
	}
	s.client.Close()
	return nil
}
