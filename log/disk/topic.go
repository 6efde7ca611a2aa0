package disk

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/vfs"
)

// topic is immutable once it is in Log.topics, but for its settings. Partitions are added by putting a new one in its
// place, which shares the settings.
type topic struct {
	name       string
	id         [16]byte
	settings   *atomic.Pointer[log.TopicConfig]
	partitions []*partition
}

func newTopic(name string, c log.TopicConfig) *topic {
	t := &topic{name: name, settings: new(atomic.Pointer[log.TopicConfig])}
	t.settings.Store(&c)
	return t
}

// config returns the settings of now; the caller changes nothing in them.
func (t *topic) config() *log.TopicConfig { return t.settings.Load() }

// topicFile is the content of topics/<name>.json. It is written after the partitions' directories and is what makes a
// topic exist; Deleted begins the end of one, so that a crash in between finishes the deletion.
type topicFile struct {
	ID             string        `json:"id"` // URL-safe base64, as in partition.metadata
	Partitions     int32         `json:"partitions"`
	Retention      time.Duration `json:"retention_ns"`
	RetentionBytes int64         `json:"retention_bytes"`
	Compression    string        `json:"compression"`
	Compact        bool          `json:"compact"`
	SegmentBytes   int64         `json:"segment_bytes"`
	SegmentAge     time.Duration `json:"segment_age_ns"`
	MaxRecordBytes int           `json:"max_record_bytes"`
	Deleted        bool          `json:"deleted,omitempty"`
}

const (
	maxTopicFile  = 64 << 10 // what is read as a topic's file, bytes
	maxPartitions = 10_000   // of one topic
	openWorkers   = 16       // partitions that are opened at a time
)

func (t *topic) file() topicFile {
	c := t.config()
	return topicFile{ID: base64.RawURLEncoding.EncodeToString(t.id[:]), Partitions: c.Partitions, Retention: c.Retention,
		RetentionBytes: c.RetentionBytes, Compression: c.Compression.String(), Compact: c.Compact,
		SegmentBytes: c.SegmentBytes, SegmentAge: c.SegmentAge, MaxRecordBytes: c.MaxRecordBytes}
}

func (f topicFile) topic(name string) (*topic, error) {
	compression, err := log.ParseCompression(f.Compression)
	if err != nil {
		return nil, err
	}
	t := newTopic(name, log.TopicConfig{Partitions: f.Partitions, Retention: f.Retention,
		RetentionBytes: f.RetentionBytes, Compression: &compression, Compact: f.Compact,
		SegmentBytes: f.SegmentBytes, SegmentAge: f.SegmentAge, MaxRecordBytes: f.MaxRecordBytes})
	id, err := base64.RawURLEncoding.DecodeString(f.ID)
	if err != nil || len(id) != len(t.id) {
		return nil, fmt.Errorf("topic id %q is not 16 bytes in base64", f.ID)
	}
	copy(t.id[:], id)
	return t, nil
}

func (l *Log) topicPath(name string) string { return filepath.Join(l.dir, topicsDir, name+".json") }

func (l *Log) writeTopic(name string, f topicFile) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFile(l.fs, l.topicPath(name), b)
}

// CreateTopic makes a topic and its empty partitions.
func (l *Log) CreateTopic(_ context.Context, name string, c log.TopicConfig) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := log.CheckTopicName(name); err != nil {
		return err
	}
	if err := l.createTopic(name, c); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	l.refreshGroups()
	return nil
}

func (l *Log) createTopic(name string, c log.TopicConfig) error {
	l.changeMu.Lock()
	defer l.changeMu.Unlock()
	if l.topics[name] != nil {
		return log.ErrTopicExists
	}
	t := newTopic(name, complete(c, l.o.Defaults))
	if t.config().Partitions < 0 || t.config().Partitions > maxPartitions {
		return fmt.Errorf("%d partitions: the limit is %d", t.config().Partitions, maxPartitions)
	}
	if n := t.config().MaxRecordBytes; n < 0 || n > maxBatchBytes {
		return fmt.Errorf("max record bytes %d: the limit is %d", n, maxBatchBytes)
	}
	if _, err := rand.Read(t.id[:]); err != nil {
		return err
	}
	if err := l.fs.Mkdir(filepath.Join(l.dir, topicsDir)); err != nil {
		return err
	}
	for i := range t.config().Partitions {
		if err := l.claim(partitionDir(l.dir, name, i)); err != nil {
			return err
		}
		if err := l.addPartition(t, i, known{}); err != nil {
			return err
		}
	}
	if err := l.writeTopic(name, t.file()); err != nil {
		return err
	}
	l.topicMu.Lock()
	defer l.topicMu.Unlock()
	l.topics[name] = t
	return nil
}

// claim makes sure that a new partition begins in an empty directory: one that a crash left of an unfinished creation is
// emptied, one with records in it belongs to somebody and is refused.
func (l *Log) claim(dir string) error {
	if _, err := l.fs.Stat(dir); err != nil {
		return nil
	}
	names, err := l.fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := l.fs.Stat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, logSuffix) && info.Size > 0 {
			return fmt.Errorf("%s holds records of no topic: move it away", dir)
		}
	}
	return vfs.RemoveAll(l.fs, dir)
}

// addPartition opens or makes one partition of t.
func (l *Log) addPartition(t *topic, number int32, k known) error {
	p, err := l.openPartition(t, number, k)
	if err != nil {
		return fmt.Errorf("open partition %s-%d: %w", t.name, number, err)
	}
	t.partitions = append(t.partitions, p)
	return nil
}

func partitionDir(dir, topic string, partition int32) string {
	return filepath.Join(dir, topic+"-"+strconv.Itoa(int(partition)))
}

// loadTopics opens every topic that a file names, and finishes deletions that a crash cut short.
func (l *Log) loadTopics(clean bool) error {
	if err := l.fs.Mkdir(filepath.Join(l.dir, topicsDir)); err != nil {
		return err
	}
	names, err := l.fs.List(filepath.Join(l.dir, topicsDir))
	if err != nil {
		return err
	}
	starts, err := l.readCheckpoint(logStartName)
	if err != nil {
		return err
	}
	durable := log.Offsets{}
	if clean {
		if durable, err = l.readCheckpoint(recoveryPointName); err != nil {
			return err
		}
	}
	for _, file := range names {
		name, ok := strings.CutSuffix(file, ".json")
		if !ok {
			continue
		}
		t, err := l.loadTopic(name)
		if err != nil {
			return err
		}
		if t != nil {
			l.topics[name] = t
		}
	}
	return l.openAll(func(tp log.TopicPartition) known { return known{start: starts[tp], durable: durable[tp]} })
}

// loadTopic reads a topic's file. The topic has no partitions yet; it is nil if it was being deleted.
func (l *Log) loadTopic(name string) (*topic, error) {
	b, err := vfs.ReadFile(l.fs, l.topicPath(name), maxTopicFile)
	if err != nil {
		return nil, err
	}
	var f topicFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read file of topic %s: %w", name, err)
	}
	t, err := f.topic(name)
	if err == nil && (f.Partitions < 0 || f.Partitions > maxPartitions) {
		err = fmt.Errorf("%d partitions", f.Partitions)
	}
	if err != nil {
		return nil, fmt.Errorf("read file of topic %s: %w", name, err)
	}
	if f.Deleted {
		return nil, l.removeTopicFiles(name, f.Partitions)
	}
	return t, nil
}

// openAll opens the partitions of all topics, several at a time: most of it is waiting for the disk.
func (l *Log) openAll(knownOf func(tp log.TopicPartition) known) error {
	var (
		wait   sync.WaitGroup
		tokens = make(chan struct{}, openWorkers)
		mu     sync.Mutex
		errs   []error
	)
	for _, t := range l.topics {
		t.partitions = make([]*partition, t.config().Partitions)
		for i := range t.partitions {
			tokens <- struct{}{}
			wait.Go(func() {
				defer func() { <-tokens }()
				tp := log.TopicPartition{Topic: t.name, Partition: int32(i)}
				p, err := l.openPartition(t, tp.Partition, knownOf(tp))
				t.partitions[i] = p
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, fmt.Errorf("open partition %s-%d: %w", tp.Topic, tp.Partition, err))
				}
			})
		}
	}
	wait.Wait()
	for _, t := range l.topics {
		// Those that did not open are left out, so that what did can be closed.
		t.partitions = slices.DeleteFunc(t.partitions, func(p *partition) bool { return p == nil })
	}
	return errors.Join(errs...)
}

// DeleteTopic removes a topic, its records and what groups committed for it.
func (l *Log) DeleteTopic(_ context.Context, name string) error {
	if err := l.usable(); err != nil {
		return err
	}
	if name == positionsTopic || name == offsetsTopic {
		return fmt.Errorf("delete topic %s: the log itself needs it", name)
	}
	if err := l.deleteTopic(name); err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return nil
}

func (l *Log) deleteTopic(name string) error {
	l.changeMu.Lock()
	defer l.changeMu.Unlock()
	t := l.topics[name]
	if t == nil {
		return log.ErrUnknownTopic
	}
	f := t.file()
	f.Deleted = true
	if err := l.writeTopic(name, f); err != nil {
		return err
	}
	l.topicMu.Lock()
	delete(l.topics, name)
	l.topicMu.Unlock()
	for _, p := range t.partitions {
		p.remove()
	}
	l.refreshGroups()
	if err := l.forgetTopic(name); err != nil {
		return err
	}
	if err := l.writeLogStarts(); err != nil {
		return err
	}
	return l.removeTopicFiles(name, t.config().Partitions)
}

func (l *Log) removeTopicFiles(name string, partitions int32) error {
	for i := range partitions {
		if err := vfs.RemoveAll(l.fs, partitionDir(l.dir, name, i)); err != nil {
			return err
		}
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	if err := vfs.RemoveAll(l.fs, l.topicPath(name)); err != nil {
		return err
	}
	return l.fs.SyncDir(filepath.Join(l.dir, topicsDir))
}

// Topic describes one topic.
func (l *Log) Topic(_ context.Context, name string) (log.Topic, error) {
	if err := l.usable(); err != nil {
		return log.Topic{}, err
	}
	l.topicMu.RLock()
	t := l.topics[name]
	l.topicMu.RUnlock()
	if t == nil {
		return log.Topic{}, fmt.Errorf("%s: %w", name, log.ErrUnknownTopic)
	}
	return t.describe(), nil
}

// Topics describes all topics.
func (l *Log) Topics(context.Context) ([]log.Topic, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	var out []log.Topic
	for _, t := range l.topicList() {
		out = append(out, t.describe())
	}
	return out, nil
}

func (t *topic) describe() log.Topic {
	d := log.Topic{Name: t.name, ID: t.id, Config: *t.config()}
	for _, p := range t.partitions {
		d.Partitions = append(d.Partitions, p.describe())
	}
	return d
}

// refreshGroups lets every group look at the topics anew.
func (l *Log) refreshGroups() {
	for _, g := range l.groupList() {
		g.refresh()
	}
}
