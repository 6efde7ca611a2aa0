// Package kafka is the backend of package log that keeps the log on a Kafka cluster.
//
// It promises the contract of package log: appends wait for all in-sync replicas, a producer's records and its mark are
// one Kafka transaction, and the members of a group are members of a real consumer group, whose partitions change hands
// only between batches. It writes no consensus and no replication: the cluster decides. What only files could tell, such
// as where damage is, it cannot say. The command package opens it in place of log/disk when log.brokers is set.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
)

// PositionsTopic keeps the mark of every producer: compacted, one partition, the producer's id as the key.
const PositionsTopic = log.InternalPrefix + "positions"

// Log is a log on a cluster. All methods may be called at the same time.
type Log struct {
	o     Options
	admin *kadm.Client
	meta  *kgo.Client // behind admin

	topics topicCache

	mu        sync.Mutex
	appenders map[log.Compression]*appender
	opened    map[closer]struct{} // consumers, producers and leases that Close has to end
	closed    atomic.Bool
}

// closer is what was opened from the log.
type closer interface{ shut() }

var _ log.Log = (*Log)(nil)

// Open connects to the cluster, and fails if no broker answers before ctx or Options.ConnectTimeout ends.
func Open(ctx context.Context, o Options) (*Log, error) {
	o = o.withDefaults()
	if len(o.Brokers) == 0 {
		return nil, errors.New("open cluster: no brokers are named")
	}
	l := &Log{o: o, appenders: map[log.Compression]*appender{}, opened: map[closer]struct{}{}}
	l.topics.entries = map[string]entry{}
	client, err := l.client(kgo.MetadataMinAge(100 * time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("open cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("open cluster %s: %w", o.address(), err)
	}
	l.meta, l.admin = client, kadm.NewClient(client)
	l.admin.SetTimeoutMillis(int32(requestTime.Milliseconds()))
	return l, nil
}

// client makes a client with the options that all of them share.
func (l *Log) client(more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := l.o.clientOptions()
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(append(opts, more...)...)
}

// Brokers counts the brokers that the cluster has now.
func (l *Log) Brokers(ctx context.Context) (int, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	brokers, err := l.admin.ListBrokers(ctx)
	if err != nil {
		return 0, fmt.Errorf("list brokers: %w", translate(err))
	}
	return len(brokers), nil
}

// Address names the cluster in messages.
func (l *Log) Address() string { return l.o.address() }

// keep notes something that Close has to end; it fails once Close has begun.
func (l *Log) keep(c closer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return log.ErrClosed
	}
	l.opened[c] = struct{}{}
	return nil
}

func (l *Log) forget(c closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.opened, c)
}

func (l *Log) usable() error {
	if l.closed.Load() {
		return log.ErrClosed
	}
	return nil
}

// Close ends everything that was opened from the log. What was acknowledged is on the brokers' disks already.
func (l *Log) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	l.mu.Lock()
	opened := make([]closer, 0, len(l.opened))
	for c := range l.opened {
		opened = append(opened, c)
	}
	l.mu.Unlock()
	var wait sync.WaitGroup
	for _, c := range opened {
		wait.Go(c.shut)
	}
	wait.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.appenders {
		c.Close()
	}
	l.meta.Close()
	return nil
}

// slogger hands what the client library says to the logger: its warnings about connections and rebalances would be
// noise in front of a person, so everything below an error is debug.
type slogger struct{ logger *slog.Logger }

func (s slogger) Level() kgo.LogLevel {
	if s.logger.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

func (s slogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if level != kgo.LogLevelNone {
		s.logger.Debug("kafka client: "+msg, keyvals...)
	}
}
