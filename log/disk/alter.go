package disk

import (
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/log"
)

// AlterTopic changes the settings of a topic. change gets those of now, with all fields set, and leaves the new ones; a
// field that it sets to zero takes the log's default. The number of partitions stays.
func (l *Log) AlterTopic(name string, change func(c *log.TopicConfig) error) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.changeMu.Lock()
	defer l.changeMu.Unlock()
	t := l.topics[name]
	if t == nil {
		return fmt.Errorf("alter topic %s: %w", name, log.ErrUnknownTopic)
	}
	c := *t.config()
	if err := change(&c); err != nil {
		return fmt.Errorf("alter topic %s: %w", name, err)
	}
	c = complete(c, l.o.Defaults)
	c.Partitions = t.config().Partitions
	next := newTopic(name, c)
	next.id = t.id
	if err := l.writeTopic(name, next.file()); err != nil {
		return fmt.Errorf("alter topic %s: %w", name, err)
	}
	t.settings.Store(&c)
	return nil
}

// AddPartitions makes partitions until a topic has count of them. Groups that read it take them in.
func (l *Log) AddPartitions(name string, count int32) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.addPartitions(name, count); err != nil {
		return fmt.Errorf("add partitions to %s: %w", name, err)
	}
	l.refreshGroups()
	return nil
}

func (l *Log) addPartitions(name string, count int32) error {
	l.changeMu.Lock()
	defer l.changeMu.Unlock()
	old := l.topics[name]
	if old == nil {
		return log.ErrUnknownTopic
	}
	if count > maxPartitions {
		return fmt.Errorf("%d partitions: the limit is %d", count, maxPartitions)
	}
	t := &topic{name: name, id: old.id, settings: old.settings, partitions: slices.Clone(old.partitions)}
	for i := int32(len(old.partitions)); i < count; i++ {
		if err := l.claim(partitionDir(l.dir, name, i)); err != nil {
			return err
		}
		if err := l.addPartition(t, i, known{}); err != nil {
			return err
		}
	}
	c := *t.config()
	c.Partitions = max(c.Partitions, count)
	f := t.file()
	f.Partitions = c.Partitions
	if err := l.writeTopic(name, f); err != nil {
		return err
	}
	t.settings.Store(&c)
	l.topicMu.Lock()
	defer l.topicMu.Unlock()
	l.topics[name] = t
	return nil
}
