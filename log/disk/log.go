// Package disk is the embedded backend of package log: one directory on one machine, in Kafka's file layout.
//
// It promises what package log promises, and across a crash: what was acknowledged is there, what a consumer was shown
// keeps its offset and its meaning, and a transaction without a stored decision never happened. It does not replicate,
// does not speak the wire protocol, and lets one process at a time have the directory; only segment.Verify and
// segment.Dump may look into one that is in use. The pipeline, the wire protocol server and main are its callers.
//
// A commit is two rounds of fdatasync. First the data of every touched partition; then one record in
// _trunkline.positions, which is the decision. The commit markers that Kafka's readers need follow without a sync of
// their own: readers of this process do not need them, and a start writes again those that a crash took.
//
// The files are Kafka's, but for the topics' settings and what compaction keeps of itself:
//
//	.lock .kafka_cleanshutdown                          held while the log is open; there after a clean end
//	log-start-offset-checkpoint                         where each partition begins
//	recovery-point-offset-checkpoint                    where each ended at the last clean end
//	topics/T.json                                       settings; what makes topic T exist
//	T-P/partition.metadata leader-epoch-checkpoint      of partition P
//	T-P/B.log B.index B.timeindex                       the segment from offset B on, see log/segment
//	T-P/B.txnindex B.snapshot                           its aborted transactions; those open before B
//	T-P/cleaner-checkpoint cleaned/ B-E.swap            of compaction
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/vfs"
)

// Names of files in the log's directory. All but topics are Kafka's.
const (
	lockName  = ".lock"
	cleanName = ".kafka_cleanshutdown"
	topicsDir = "topics"

	logStartName      = "log-start-offset-checkpoint"
	recoveryPointName = "recovery-point-offset-checkpoint"
)

// Names of Trunkline's own topics that the log itself writes.
const (
	positionsTopic = log.InternalPrefix + "positions"
	offsetsTopic   = log.InternalPrefix + "offsets"
)

// Log is an open log directory.
//
// Locks are taken in this order: Log.changeMu, group.mu, Log.topicMu, slot.mu, producer.mu, partition.flush,
// partition.mu, partition.files.
type Log struct {
	dir    string
	o      Options
	fs     vfs.FS
	logger *slog.Logger
	lock   io.Closer

	changeMu sync.Mutex   // held for the length of a creation or a deletion, so that topicMu is never held long
	topicMu  sync.RWMutex // taken to write only with changeMu held
	topics   map[string]*topic

	checkpointMu sync.Mutex // held while a checkpoint file is written

	groupMu sync.Mutex
	groups  map[string]*group

	producerMu sync.Mutex
	slots      map[string]*slot
	nextPID    int64

	protected     atomic.Pointer[map[string][]string]
	outsideGroups atomic.Pointer[func() map[string][]log.Member]
	Counters      Counters

	closing    chan struct{} // closed when Close begins
	closed     atomic.Bool
	background sync.WaitGroup
	dirty      chan struct{} // capacity 1: something waits for the flusher
	workers    chan struct{} // a token for each batch that is being compressed
}

// Counters count what an operator must hear of. They only grow.
type Counters struct {
	RetentionForced atomic.Int64 // offsets removed by RetentionBytes before a protected group had read them
	Truncated       atomic.Int64 // bytes cut from torn tails at open or after a failed sync
	WriteErrors     atomic.Int64 // appends and syncs that the disk refused
}

// Open opens the log in dir, making it if it is not there. After an unclean end it recovers first.
func Open(dir string, o Options) (*Log, error) {
	o = o.withDefaults()
	l := &Log{
		dir: dir, o: o, fs: o.FS, logger: o.Logger,
		topics: map[string]*topic{}, groups: map[string]*group{}, slots: map[string]*slot{}, nextPID: 1,
		closing: make(chan struct{}), dirty: make(chan struct{}, 1),
		workers: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	if err := l.fs.Mkdir(dir); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	lock, err := l.fs.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("open log %s: %w: stop the other trunkline, or name another log.dir", dir, log.ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.lock = lock
	if err := l.start(); err != nil {
		l.closeFiles()
		return nil, errors.Join(fmt.Errorf("open log %s: %w", dir, err), lock.Close())
	}
	l.background.Go(l.flusher)
	l.background.Go(l.maintenance)
	return l, nil
}

// start loads and recovers everything. The mark of a clean end goes before the first write, so that a crash from here on
// is seen as one.
func (l *Log) start() error {
	clean := true
	if err := l.fs.Remove(filepath.Join(l.dir, cleanName)); errors.Is(err, fs.ErrNotExist) {
		clean = false
	} else if err != nil {
		return err
	} else if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	if err := l.loadTopics(clean); err != nil {
		return err
	}
	for _, name := range []string{positionsTopic, offsetsTopic} {
		none := log.CompressionNone // one small record to a batch
		err := l.createTopic(name, log.TopicConfig{Partitions: 1, Retention: log.Forever, Compact: true, Compression: &none,
			SegmentBytes: l.o.ownSegmentBytes})
		if err != nil && !errors.Is(err, log.ErrTopicExists) {
			return err
		}
	}
	decided, err := l.loadPositions()
	if err != nil {
		return err
	}
	if err := l.settleOffsets(decided); err != nil {
		return err
	}
	if err := l.loadOffsets(); err != nil {
		return err
	}
	return l.settle(decided)
}

// Dir returns the log's directory.
func (l *Log) Dir() string { return l.dir }

// usable fails once the log is closed.
func (l *Log) usable() error {
	if l.closed.Load() {
		return log.ErrClosed
	}
	return nil
}

// Append writes records outside any transaction.
func (l *Log) Append(ctx context.Context, tp log.TopicPartition, records ...log.Record) (int64, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	p, err := l.partition(tp)
	if err != nil {
		return 0, err
	}
	return p.appendRecords(records)
}

// SetProtected says which groups must have read a record before retention may remove it: group name to topic patterns.
func (l *Log) SetProtected(groups map[string][]string) {
	copied := maps.Clone(groups)
	l.protected.Store(&copied)
}

// partition finds an open partition.
func (l *Log) partition(tp log.TopicPartition) (*partition, error) {
	l.topicMu.RLock()
	t := l.topics[tp.Topic]
	l.topicMu.RUnlock()
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.partitions) {
		return nil, fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, log.ErrUnknownTopic)
	}
	return t.partitions[tp.Partition], nil
}

// topicList returns all topics by name.
func (l *Log) topicList() []*topic {
	l.topicMu.RLock()
	defer l.topicMu.RUnlock()
	return slices.SortedFunc(maps.Values(l.topics), func(a, b *topic) int { return cmp.Compare(a.name, b.name) })
}

// partitionList returns the partitions of all topics.
func (l *Log) partitionList() []*partition {
	var all []*partition
	for _, t := range l.topicList() {
		all = append(all, t.partitions...)
	}
	return all
}

// Close ends consumers and producers, writes what is owed and leaves the mark of a clean end.
func (l *Log) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	close(l.closing)
	l.background.Wait()
	l.closeProducers()
	var errs []error
	for _, p := range l.partitionList() {
		if err := p.seal(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		if err := l.markClean(); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, l.closeFiles(), l.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close log %s: %w", l.dir, err)
	}
	return nil
}

// markClean leaves the mark of a clean end, behind all that it stands for.
func (l *Log) markClean() error {
	if err := l.writeLogStarts(); err != nil {
		return err
	}
	if err := l.writeRecoveryPoints(); err != nil {
		return err
	}
	return vfs.WriteFile(l.fs, filepath.Join(l.dir, cleanName), nil)
}

func (l *Log) closeFiles() error {
	var errs []error
	for _, p := range l.partitionList() {
		errs = append(errs, p.shut())
	}
	return errors.Join(errs...)
}

// OffsetAt returns the offset of the first record stamped at or after t.
func (l *Log) OffsetAt(_ context.Context, tp log.TopicPartition, t time.Time) (int64, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	p, err := l.partition(tp)
	if err != nil {
		return 0, err
	}
	return p.offsetAt(t)
}

var _ log.Log = (*Log)(nil)
