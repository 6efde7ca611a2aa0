package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/trunkline/trunkline/log"
)

// Kafka's names of the settings that a TopicConfig has.
const (
	settingCleanup     = "cleanup.policy"
	settingRetention   = "retention.ms"
	settingBytes       = "retention.bytes"
	settingCompression = "compression.type"
	settingSegment     = "segment.bytes"
	settingAge         = "segment.ms"
	settingRecord      = "max.message.bytes"
	settingInSync      = "min.insync.replicas"
)

// describeTries bounds how often all topics are asked for when some are deleted meanwhile.
const describeTries = 10

// propagation is how long a change of a topic may take to be known to all brokers, and how often to look.
const (
	propagation      = 15 * time.Second
	propagationSteps = 20 * time.Millisecond
)

// An operator can change a topic at any time. configAge is how old what people are shown may be, and appendAge what an
// append goes by: brokers refuse what does not fit, so it only decides how soon it fits again.
const (
	configAge = 10 * time.Second
	appendAge = 5 * time.Minute
)

// topicCache keeps what every append needs to know of a topic.
type topicCache struct {
	mu      sync.Mutex
	entries map[string]entry
}

type entry struct {
	config log.TopicConfig
	read   time.Time
}

func (c *topicCache) get(name string, age time.Duration) (log.TopicConfig, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[name]
	return e.config, ok && time.Since(e.read) < age
}

func (c *topicCache) put(name string, config log.TopicConfig) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[name] = entry{config, time.Now()}
}

func (c *topicCache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, name)
}

// completed fills what is zero in c from d.
func completed(c, d log.TopicConfig) log.TopicConfig {
	c.Partitions = cmp.Or(c.Partitions, d.Partitions)
	c.Retention = cmp.Or(c.Retention, d.Retention)
	c.RetentionBytes = cmp.Or(c.RetentionBytes, d.RetentionBytes)
	c.SegmentBytes = cmp.Or(c.SegmentBytes, d.SegmentBytes)
	c.SegmentAge = cmp.Or(c.SegmentAge, d.SegmentAge)
	c.MaxRecordBytes = cmp.Or(c.MaxRecordBytes, d.MaxRecordBytes)
	if c.Compression == nil {
		c.Compression = d.Compression
	}
	return c
}

// settings writes a complete config in Kafka's terms.
func (l *Log) settings(c log.TopicConfig) map[string]*string {
	out := map[string]*string{}
	set := func(name, value string) { out[name] = &value }
	switch {
	case c.Compact && c.Retention == log.Forever:
		set(settingCleanup, "compact")
	case c.Compact:
		set(settingCleanup, "compact,delete")
	default:
		set(settingCleanup, "delete")
	}
	retention, bytes := int64(-1), int64(-1)
	if c.Retention != log.Forever {
		retention = c.Retention.Milliseconds()
	}
	if c.RetentionBytes > 0 {
		bytes = c.RetentionBytes
	}
	set(settingRetention, strconv.FormatInt(retention, 10))
	set(settingBytes, strconv.FormatInt(bytes, 10))
	set(settingSegment, strconv.FormatInt(c.SegmentBytes, 10))
	set(settingAge, strconv.FormatInt(c.SegmentAge.Milliseconds(), 10))
	set(settingRecord, strconv.Itoa(c.MaxRecordBytes))
	set(settingCompression, compressionName(*c.Compression))
	if l.o.MinInSync > 0 {
		set(settingInSync, strconv.Itoa(l.o.MinInSync))
	}
	return out
}

// compressionName is Kafka's name of a codec: it calls none uncompressed.
func compressionName(c log.Compression) string {
	if c == log.CompressionNone {
		return "uncompressed"
	}
	return c.String()
}

// parseSettings is the inverse of settings.
func (l *Log) parseSettings(configs []kadm.Config) log.TopicConfig {
	c := log.TopicConfig{Retention: log.Forever, Compression: l.o.Default.Compression}
	deletes := true
	for _, s := range configs {
		text := s.MaybeValue()
		n, err := strconv.ParseInt(text, 10, 64)
		number := err == nil
		switch s.Key {
		case settingCleanup:
			c.Compact, deletes = strings.Contains(text, "compact"), strings.Contains(text, "delete")
		case settingCompression:
			if codec, err := log.ParseCompression(text); err == nil {
				c.Compression = &codec
			} else if text == "uncompressed" {
				c.Compression = new(log.CompressionNone)
			}
		case settingRetention:
			if number && n >= 0 && n < int64(maxMillis) {
				c.Retention = time.Duration(n) * time.Millisecond
			}
		case settingBytes:
			c.RetentionBytes = max(0, n)
		case settingSegment:
			c.SegmentBytes = n
		case settingAge:
			c.SegmentAge = time.Duration(min(n, maxMillis)) * time.Millisecond
		case settingRecord:
			c.MaxRecordBytes = int(n)
		}
	}
	if !deletes {
		c.Retention = log.Forever
	}
	return completed(c, log.TopicConfig{SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, MaxRecordBytes: 1 << 20})
}

// maxMillis is the longest time in milliseconds that a time.Duration holds.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)

// CreateTopic creates a topic and waits until it can be written.
func (l *Log) CreateTopic(ctx context.Context, name string, c log.TopicConfig) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := log.CheckTopicName(name); err != nil {
		return err
	}
	c = completed(c, l.o.Default)
	replication := int16(-1)
	if l.o.Replication > 0 {
		replication = int16(l.o.Replication)
	}
	_, err := l.admin.CreateTopic(ctx, c.Partitions, replication, l.settings(c), name)
	l.topics.drop(name)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		// Who lost a race for it uses it next, and the winner may still be waiting.
		return fmt.Errorf("create topic %q: %w", name, errors.Join(translate(err), l.ready(ctx, name, 0)))
	}
	if err != nil {
		return fmt.Errorf("create topic %q: %w", name, translate(err))
	}
	return l.ready(ctx, name, int(c.Partitions))
}

// ready waits until each partition of a topic has a leader that answers, which is a while after the topic exists. A count
// of zero takes whatever number of partitions there is.
func (l *Log) ready(ctx context.Context, name string, partitions int) error {
	return l.settled(ctx, "create topic", name, func(d kadm.TopicDetail) bool {
		if d.Err != nil || len(d.Partitions) == 0 || partitions > 0 && len(d.Partitions) != partitions {
			return false
		}
		for _, p := range d.Partitions {
			if p.Err != nil || p.Leader < 0 {
				return false
			}
		}
		listed, err := l.admin.ListEndOffsets(ctx, name)
		return err == nil && listed.Error() == nil
	})
}

// DeleteTopic deletes a topic and waits until it is gone.
func (l *Log) DeleteTopic(ctx context.Context, name string) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.forgetTopic(ctx, name); err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	_, err := l.admin.DeleteTopic(ctx, name)
	l.topics.drop(name)
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", name, translate(err))
	}
	l.mu.Lock()
	for _, c := range l.appenders {
		c.PurgeTopicsFromClient(name)
	}
	l.mu.Unlock()
	return l.settled(ctx, "delete topic", name, func(d kadm.TopicDetail) bool {
		return errors.Is(d.Err, kerr.UnknownTopicOrPartition)
	})
}

// settled waits until what the brokers say of a topic is as wanted.
func (l *Log) settled(ctx context.Context, verb, name string, done func(kadm.TopicDetail) bool) error {
	ctx, cancel := context.WithTimeout(ctx, propagation)
	defer cancel()
	ticker := time.NewTicker(propagationSteps)
	defer ticker.Stop()
	for {
		details, err := l.admin.ListTopicsWithInternal(ctx, name)
		if err == nil && done(details[name]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %q: wait until the brokers know it: %w", verb, name, errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// forgetTopic removes what idle groups have committed for a topic. Brokers do it too, later.
func (l *Log) forgetTopic(ctx context.Context, name string) error {
	groups, err := l.Groups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		var set kadm.TopicsSet
		for tp := range g.Offsets {
			if tp.Topic == name {
				set.Add(tp.Topic, tp.Partition)
			}
		}
		if len(set) == 0 {
			continue
		}
		// A group with members refuses it; its offsets go with the topic.
		if _, err := l.admin.DeleteOffsets(ctx, g.Name, set); err != nil {
			return fmt.Errorf("forget offsets of group %q: %w", g.Name, err)
		}
	}
	return nil
}

// Topic describes one topic.
func (l *Log) Topic(ctx context.Context, name string) (log.Topic, error) {
	if err := log.CheckTopicName(name); err != nil {
		return log.Topic{}, fmt.Errorf("%w: %w", log.ErrUnknownTopic, err)
	}
	list, err := l.describe(ctx, name)
	if err != nil {
		return log.Topic{}, err
	}
	if len(list) == 0 {
		return log.Topic{}, fmt.Errorf("topic %q: %w", name, log.ErrUnknownTopic)
	}
	return list[0], nil
}

// Topics describes all topics but the brokers' own.
func (l *Log) Topics(ctx context.Context) ([]log.Topic, error) {
	list, err := l.describe(ctx)
	for try := 1; try < describeTries && errors.Is(err, log.ErrUnknownTopic); try++ {
		list, err = l.describe(ctx) // one was deleted between two of the questions
	}
	return list, err
}

// describe asks for the named topics, or for all, and leaves out what does not exist.
func (l *Log) describe(ctx context.Context, names ...string) ([]log.Topic, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	details, err := l.admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", translate(err))
	}
	var known []string
	for _, d := range details.Sorted() {
		switch {
		case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		case d.Err != nil:
			return nil, fmt.Errorf("describe topic %q: %w", d.Topic, translate(d.Err))
		case !d.IsInternal:
			known = append(known, d.Topic)
		}
	}
	if len(known) == 0 {
		return nil, nil
	}
	configs, err := l.configs(ctx, known)
	if err != nil {
		return nil, err
	}
	ends, err := l.ends(ctx, known)
	if err != nil {
		return nil, err
	}
	sizes := l.sizes(ctx, details, known)
	var out []log.Topic
	for _, name := range known {
		config, ok := configs[name]
		if !ok {
			continue // it was deleted in between
		}
		d := details[name]
		t := log.Topic{Name: name, ID: d.ID, Config: config, Partitions: make([]log.Partition, len(d.Partitions))}
		t.Config.Partitions = int32(len(d.Partitions))
		for i := range t.Partitions {
			t.Partitions[i] = ends.partition(d.Partitions[int32(i)], sizes[log.TopicPartition{Topic: name, Partition: int32(i)}], config.SegmentBytes)
		}
		l.topics.put(name, t.Config)
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b log.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// configs reads the settings of topics that the cache does not have.
func (l *Log) configs(ctx context.Context, names []string) (map[string]log.TopicConfig, error) {
	out := map[string]log.TopicConfig{}
	var missing []string
	for _, name := range names {
		if c, ok := l.topics.get(name, configAge); ok {
			out[name] = c
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	described, err := l.admin.DescribeTopicConfigs(ctx, missing...)
	if err != nil {
		return nil, fmt.Errorf("describe settings of topics: %w", translate(err))
	}
	for _, r := range described {
		if errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if r.Err != nil {
			return nil, fmt.Errorf("describe settings of topic %q: %w", r.Name, translate(r.Err))
		}
		out[r.Name] = l.parseSettings(r.Configs)
	}
	return out, nil
}

// config returns a topic's settings and number of partitions.
func (l *Log) config(ctx context.Context, name string) (log.TopicConfig, error) {
	if c, ok := l.topics.get(name, appendAge); ok {
		return c, nil
	}
	if err := log.CheckTopicName(name); err != nil {
		return log.TopicConfig{}, fmt.Errorf("%w: %w", log.ErrUnknownTopic, err)
	}
	details, err := l.admin.ListTopicsWithInternal(ctx, name)
	if err == nil {
		err = details[name].Err
	}
	var configs map[string]log.TopicConfig
	if err == nil {
		configs, err = l.configs(ctx, []string{name})
	}
	if err != nil {
		return log.TopicConfig{}, fmt.Errorf("read settings of topic %q: %w", name, translate(err))
	}
	c, ok := configs[name]
	if !ok {
		return c, fmt.Errorf("topic %q: %w", name, log.ErrUnknownTopic)
	}
	c.Partitions = int32(len(details[name].Partitions))
	l.topics.put(name, c)
	return c, nil
}

// checkPartition returns the settings of a partition's topic, ErrUnknownTopic if there is no such partition.
func (l *Log) checkPartition(ctx context.Context, tp log.TopicPartition) (log.TopicConfig, error) {
	c, err := l.config(ctx, tp.Topic)
	if err == nil && tp.Partition >= c.Partitions {
		l.topics.drop(tp.Topic) // it may have grown
		c, err = l.config(ctx, tp.Topic)
	}
	if err != nil {
		return c, err
	}
	if tp.Partition < 0 || tp.Partition >= c.Partitions {
		return c, fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, log.ErrUnknownTopic)
	}
	return c, nil
}
