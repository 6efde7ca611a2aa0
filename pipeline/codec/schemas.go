package codec

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// SchemasTopic holds one record for each version of each table's schema. A version's id is its record's offset.
const SchemasTopic = log.InternalPrefix + "schemas"

var schemasPartition = log.TopicPartition{Topic: SchemasTopic}

// Schemas is the registry of schema versions, kept in the log itself, so that a record can be decoded for as long as
// the log lives. All methods may be called at the same time.
type Schemas struct {
	journal log.Log

	mu        sync.Mutex
	consumer  log.Consumer
	next      int64              // offset of the first version that was not read yet
	latest    map[string]version // by table: the newest version
	versions  map[int64]*connectors.Table
	malformed map[int64]error
}

// version is one that the log has.
type version struct {
	id      int64
	content string
}

// NewSchemas returns the registry of a log. It reads nothing before it is asked.
func NewSchemas(journal log.Log) *Schemas {
	return &Schemas{
		journal:   journal,
		latest:    map[string]version{},
		versions:  map[int64]*connectors.Table{},
		malformed: map[int64]error{},
	}
}

// ID returns the id of a version, and stores the version first when the table's newest one in the log is another. When ID
// returns, the version is durable, so a record that names it can always be decoded. So ids tell the order of versions: a
// table that gets back what it had before gets a higher id, and a restart that changes nothing gets the same. Versions that
// it passed are stored before it, unless they are there. It is asked when a table has another version than before, not for each change.
func (s *Schemas) ID(ctx context.Context, t *connectors.Table) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var contents []string
	for _, v := range append(slices.Clone(t.Passed), t) {
		content, err := marshalTable(v)
		if err != nil {
			return 0, fmt.Errorf("encode schema of %s: %w", t.FullName(), err)
		}
		contents = append(contents, string(content))
	}
	if err := s.catchUp(ctx); err != nil {
		return 0, err
	}
	id := s.latest[identity(t)].id
	for _, content := range contents[s.known(t, contents):] {
		var err error
		if id, err = s.store(ctx, t, []byte(content)); err != nil {
			return 0, err
		}
	}
	return id, nil
}

// known returns how many of the versions in a row are the newest ones in the log already, in the same order.
func (s *Schemas) known(t *connectors.Table, contents []string) int {
	if newest, ok := s.latest[identity(t)]; len(contents) == 1 || !ok {
		if ok && newest.content == contents[0] {
			return 1
		}
		return 0
	}
	var stored []string
	for _, v := range s.of(t) {
		content, err := marshalTable(v.Table)
		if err != nil {
			return 0
		}
		stored = append(stored, string(content))
	}
	for n := min(len(contents), len(stored)); n > 0; n-- {
		if slices.Equal(stored[len(stored)-n:], contents[:n]) {
			return n
		}
	}
	return 0
}

// store appends a version. Its key is unique, so that compaction never removes a version: not even one that two
// processes stored at the same moment, because both ids may be in use.
func (s *Schemas) store(ctx context.Context, t *connectors.Table, content []byte) (int64, error) {
	key := appendText([]byte(`{"table":`), t.FullName())
	key = append(appendText(append(key, `,"version":`...), rand.Text()), '}')
	id, err := s.journal.Append(ctx, schemasPartition, log.Record{Key: key, Value: content})
	if err != nil {
		return 0, fmt.Errorf("store schema of %s: %w", t.FullName(), err)
	}
	return id, s.keep(id, content)
}

// keep notes a version that is in the log.
func (s *Schemas) keep(id int64, content []byte) error {
	t, err := unmarshalTable(content)
	if err != nil {
		return err
	}
	s.versions[id] = t
	if name := identity(t); s.latest[name].id <= id {
		s.latest[name] = version{id, string(content)}
	}
	return nil
}

// identity tells tables apart whose versions have an order of their own.
func identity(t *connectors.Table) string {
	return strings.Join([]string{t.Dialect, t.Database, t.Schema, t.Name, t.Topic}, "\x00")
}

// Fingerprint is a short text that two versions of a table share only if they are equal.
func Fingerprint(t *connectors.Table) (string, error) {
	content, err := marshalTable(t)
	if err != nil {
		return "", fmt.Errorf("encode schema of %s: %w", t.FullName(), err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), nil
}

// Table returns the version with that id, always by the same pointer. An id that the log does not have is a RecordError.
func (s *Schemas) Table(ctx context.Context, id int64) (*connectors.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.versions[id]; t != nil {
		return t, nil
	}
	if id >= s.next {
		if err := s.catchUp(ctx); err != nil {
			return nil, err
		}
	}
	if t := s.versions[id]; t != nil {
		return t, nil
	}
	if err := s.malformed[id]; err != nil {
		return nil, refuse("schema %d: %w", id, err)
	}
	return nil, refuse("schema %d is not in %s", id, SchemasTopic)
}

// Version is one version of a table's schema.
type Version struct {
	ID    int64
	Table *connectors.Table
}

// Versions returns all versions of the table that the version with that id is of, oldest first.
func (s *Schemas) Versions(ctx context.Context, id int64) ([]Version, error) {
	t, err := s.Table(ctx, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	return s.of(t), nil
}

// of lists the versions of a table, oldest first.
func (s *Schemas) of(t *connectors.Table) []Version {
	var out []Version
	for id, other := range s.versions {
		if identity(other) == identity(t) {
			out = append(out, Version{id, other})
		}
	}
	slices.SortFunc(out, func(a, b Version) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// catchUp reads the versions that were stored since the last call, by this process or another.
func (s *Schemas) catchUp(ctx context.Context) error {
	end, err := s.end(ctx)
	if err != nil {
		return fmt.Errorf("read schemas: %w", err)
	}
	if s.next >= end {
		return nil
	}
	if s.consumer == nil {
		s.consumer, err = s.journal.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{schemasPartition}})
		if err != nil {
			return fmt.Errorf("read schemas: %w", err)
		}
	}
	for s.next < end {
		fetch, err := s.consumer.Poll(ctx, 1000)
		if err != nil {
			return errors.Join(fmt.Errorf("read schemas: %w", err), s.closeConsumer(ctx))
		}
		for i := range fetch.Records {
			r := &fetch.Records[i]
			if r.Value == nil || s.versions[r.Offset] != nil {
				continue
			}
			if err := s.keep(r.Offset, r.Value); err != nil {
				s.malformed[r.Offset] = err
			}
		}
		s.next = fetch.Next
	}
	return nil
}

// end returns the end of the topic, which it makes if there is none.
func (s *Schemas) end(ctx context.Context) (int64, error) {
	for {
		topic, err := s.journal.Topic(ctx, SchemasTopic)
		if err == nil {
			return topic.Partitions[0].LastStable, nil
		}
		if !errors.Is(err, log.ErrUnknownTopic) {
			return 0, err
		}
		err = s.journal.CreateTopic(ctx, SchemasTopic, log.TopicConfig{Partitions: 1, Retention: log.Forever, Compact: true})
		if err != nil && !errors.Is(err, log.ErrTopicExists) {
			return 0, err
		}
	}
}

// closeConsumer also forgets how far it was read: the next one begins at the start.
func (s *Schemas) closeConsumer(ctx context.Context) error {
	consumer := s.consumer
	s.consumer, s.next = nil, 0
	if consumer == nil {
		return nil
	}
	return consumer.Close(ctx)
}

// Close ends reading. The registry can be used again afterwards.
func (s *Schemas) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeConsumer(ctx)
}
