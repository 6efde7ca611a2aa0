package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
)

// transactionalPrefix keeps the transactional ids apart from those of other programs on the cluster.
const transactionalPrefix = "trunkline."

// linger is how long a batch of a transaction waits for more records. A commit does not wait for it.
const linger = 5 * time.Millisecond

// transactionPause is how long to wait before a transaction is begun again while the brokers finish the one before. They
// need a few milliseconds, which is most of the time of a small commit.
const transactionPause = 2 * time.Millisecond

// producer is a transactional producer. Everything but shut belongs to one goroutine.
type producer struct {
	l      *Log
	id     string
	client *kgo.Client
	limit  time.Duration // of a transaction, at the brokers
	begun  time.Time
	open   bool  // a transaction has begun
	err    error // the first failure; it ends the producer

	mu       sync.Mutex
	room     sync.Cond
	buffered int   // bytes on their way to the brokers
	failed   error // of a record

	once sync.Once
}

// Producer opens the producer of that id. The brokers fence the older one and abort what it had open; only then is the
// mark read, so that it is the last that there will be of the older one.
func (l *Log) Producer(ctx context.Context, id string) (log.Producer, []byte, error) {
	if err := l.usable(); err != nil {
		return nil, nil, err
	}
	if err := l.ensurePositions(ctx); err != nil {
		return nil, nil, fmt.Errorf("open producer %q: %w", id, err)
	}
	p, err := l.initProducer(ctx, id, l.o.TransactionTimeout)
	if errors.Is(err, kerr.InvalidTransactionTimeout) {
		// The brokers allow less than Kafka's default. A minute is what most clients ask for.
		p, err = l.initProducer(ctx, id, time.Minute)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open producer %q: %w", id, translate(err))
	}
	mark, err := l.readMark(ctx, id)
	if err == nil {
		err = l.keep(p)
	}
	if err != nil {
		p.client.Close()
		return nil, nil, fmt.Errorf("open producer %q: read its mark: %w", id, err)
	}
	return p, mark, nil
}

func (l *Log) initProducer(ctx context.Context, id string, timeout time.Duration) (*producer, error) {
	client, err := l.client(append(l.producerOptions(*l.o.Default.Compression), kgo.TransactionalID(transactionalPrefix+id),
		kgo.TransactionTimeout(timeout), kgo.ProducerLinger(linger), kgo.ConcurrentTransactionsBackoff(transactionPause))...)
	if err != nil {
		return nil, err
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, err
	}
	p := &producer{l: l, id: id, client: client, limit: timeout}
	p.room.L = &p.mu
	return p, nil
}

// Append adds records to the open transaction. They are on their way when it returns.
func (p *producer) Append(ctx context.Context, tp log.TopicPartition, records ...log.Record) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	config, err := p.l.checkPartition(ctx, tp)
	if err == nil {
		err = checkSize(tp, config, records)
	}
	if err == nil {
		err = p.begin()
	}
	if err == nil {
		err = p.produce(ctx, convert(tp, records))
	}
	if err != nil {
		p.l.topics.drop(tp.Topic)
		return p.fail("append", err)
	}
	return nil
}

// ready says why the producer is of no use, if it is not.
func (p *producer) ready(ctx context.Context) error {
	if err := p.l.usable(); err != nil {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("producer %q failed before: %w", p.id, p.err)
	}
	return ctx.Err()
}

func (p *producer) begin() error {
	if p.open {
		return nil
	}
	if err := p.client.BeginTransaction(); err != nil {
		return err
	}
	p.open, p.begun = true, time.Now()
	return nil
}

// produce hands records to the client and holds the caller back while too much is on its way.
func (p *producer) produce(ctx context.Context, list []*kgo.Record) error {
	size := 0
	for _, r := range list {
		size += len(r.Key) + len(r.Value)
	}
	wake := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.room.Broadcast()
	})
	defer wake()
	p.mu.Lock()
	for p.buffered > bufferedBytes && p.failed == nil && ctx.Err() == nil {
		p.room.Wait()
	}
	err := p.failed
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		p.buffered += size
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	for _, r := range list {
		// The record outlives the call, so it cannot be bound to ctx.
		p.client.Produce(context.WithoutCancel(ctx), r, p.acknowledged)
	}
	return nil
}

// acknowledged is called by the client, in any goroutine.
func (p *producer) acknowledged(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffered -= len(r.Key) + len(r.Value)
	if err != nil && p.failed == nil {
		p.failed = err
	}
	p.room.Broadcast()
}

// Commit appends the mark to the transaction and commits it.
func (p *producer) Commit(ctx context.Context, mark []byte) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	err := p.begin()
	if err == nil {
		err = p.produce(ctx, convert(positionsPartition, []log.Record{{Key: []byte(p.id), Value: mark}}))
	}
	if err == nil {
		err = p.flush(ctx)
	}
	if err == nil {
		err = p.client.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		return p.fail("commit", err)
	}
	p.open = false
	return nil
}

// flush waits until every record is acknowledged or one has failed.
func (p *producer) flush(ctx context.Context) error {
	if err := p.client.Flush(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Abort drops what was appended since the last commit.
func (p *producer) Abort(ctx context.Context) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	if err := p.rollback(ctx); err != nil {
		return p.fail("abort", err)
	}
	return nil
}

func (p *producer) rollback(ctx context.Context) error {
	if !p.open {
		return nil
	}
	if err := p.client.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	if err := p.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return err
	}
	p.open = false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = nil
	return nil
}

// fail ends the producer. What it had open is aborted by the brokers, when the next one of the id is opened at the
// latest: whether a commit that failed has happened is not known before.
func (p *producer) fail(verb string, err error) error {
	p.err = fmt.Errorf("%s: %w", verb, translate(err))
	if open := time.Since(p.begun); p.open && errors.Is(p.err, log.ErrFenced) && open > p.limit {
		// Brokers end what takes too long by fencing the producer. No other one is at work, so this can be tried again.
		p.err = fmt.Errorf("%s: the transaction was open for %v, and the brokers end it after %v: %v", verb, open.Round(time.Second), p.limit, err)
	}
	if errors.Is(err, log.ErrRecordTooLarge) || errors.Is(err, log.ErrUnknownTopic) {
		p.err = fmt.Errorf("%s: %w", verb, err)
	}
	return fmt.Errorf("producer %q: %w", p.id, p.err)
}

// Close aborts what is open, unless the producer has failed: see fail.
func (p *producer) Close(ctx context.Context) error {
	var err error
	p.once.Do(func() {
		p.l.forget(p)
		if p.err == nil {
			p.err = errProducerClosed
			if rollback := p.rollback(ctx); rollback != nil && !errors.Is(translate(rollback), log.ErrFenced) {
				err = fmt.Errorf("close producer %q: %w", p.id, translate(rollback))
			}
		} else if errors.Is(p.err, log.ErrRecordTooLarge) || errors.Is(p.err, log.ErrUnknownTopic) {
			_ = p.rollback(ctx) // the refused record never left; readers need not wait for a timeout
		}
		p.client.Close()
	})
	return err
}

var errProducerClosed = errors.New("producer is closed")

// shut ends the producer with the log. A transaction that is open is aborted if the brokers answer in time.
func (p *producer) shut() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	p.once.Do(func() {
		p.l.forget(p)
		_ = p.rollback(ctx) // else the next producer of the id does it
		p.client.Close()
	})
}
