// Package log is the contract of the partitioned log that stands between sources and sinks. It knows bytes only.
//
// It promises Kafka's semantics: topics with partitions, records with offsets that never change, a high watermark below
// which everything is durable, a last stable offset below which every transaction is decided, consumer groups with
// committed offsets, and producers whose Commit makes appends over many partitions and a mark visible at once or not at
// all. Two backends keep it: log/disk (embedded, Kafka's files) and a Kafka cluster. log/conformance is the suite that
// both pass. The pipeline and main are the only callers.
//
// The standard library's log is not used in this module; an open log is named journal, a logger is named logger.
package log

import (
	"context"
	"time"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. As an argument it is read before the call returns and not kept. As a result it points into
// memory that belongs to the fetch.
type Record struct {
	Key       []byte // nil: no key
	Value     []byte // nil: a tombstone
	Headers   []Header
	Timestamp int64 // milliseconds since 1970; in appends 0 means now
	Offset    int64 // set by the log
}

// Log is one open log. All methods may be called at the same time.
type Log interface {
	// CreateTopic fails with ErrTopicExists; zero fields of c take the log's defaults.
	CreateTopic(ctx context.Context, name string, c TopicConfig) error
	// DeleteTopic removes a topic, its records and the offsets that groups committed for it.
	DeleteTopic(ctx context.Context, name string) error
	// Topic fails with ErrUnknownTopic.
	Topic(ctx context.Context, name string) (Topic, error)
	// Topics returns all topics by name, internal ones too.
	Topics(ctx context.Context) ([]Topic, error)

	// Append writes records outside any transaction, all or none in one partition, and returns the offset of the
	// first once all are durable and readable.
	Append(ctx context.Context, tp TopicPartition, records ...Record) (int64, error)

	// Producer opens the transactional producer of that id. An older one with the same id is fenced, and what it
	// had appended and not committed is aborted. mark is what its last Commit stored, nil if there was none.
	Producer(ctx context.Context, id string) (p Producer, mark []byte, err error)

	// Consumer opens a reader of committed records.
	Consumer(ctx context.Context, o ConsumerOptions) (Consumer, error)

	// OffsetAt returns the offset of the first record stamped at or after t, the high watermark if there is none.
	OffsetAt(ctx context.Context, tp TopicPartition, t time.Time) (int64, error)

	// Groups returns every group that has members or committed offsets, by name.
	Groups(ctx context.Context) ([]Group, error)
	// SetOffsets stores offsets for a group that has no members; ErrGroupActive otherwise.
	SetOffsets(ctx context.Context, group string, offsets Offsets) error
	// DeleteGroup forgets the offsets of a group that has no members.
	DeleteGroup(ctx context.Context, group string) error

	// Close ends everything that was opened from the log and returns when it is on disk.
	Close() error
}

// Producer appends to many partitions and commits at once. It belongs to one goroutine. After ErrFenced or any other
// error it is of no use: open it again.
type Producer interface {
	// Append adds records to the open transaction. They may go to disk early but nobody sees them before Commit.
	// It waits for room only as the first call of a transaction.
	Append(ctx context.Context, tp TopicPartition, records ...Record) error
	// Commit makes every append since the last Commit, and mark, visible and durable at once; without appends it
	// stores the mark alone. When it returns an error the outcome is one of the two, never a part: the mark that
	// Log.Producer returns next tells which.
	Commit(ctx context.Context, mark []byte) error
	// Abort drops what was appended since the last Commit.
	Abort(ctx context.Context) error
	// Close aborts what is open.
	Close(ctx context.Context) error
}

// Start says where a group begins in a partition for which it has committed nothing.
type Start struct {
	Latest bool      // at the end; false: at the oldest record
	At     time.Time // if set: at the first record stamped at or after it
}

// ConsumerOptions opens a consumer. Either Partitions (manual assignment) or Topics (a member of Group) is set.
type ConsumerOptions struct {
	Group      string           // where offsets are kept; may be empty with Partitions: then nothing is committed
	Topics     []string         // names; * and ? are wildcards, and topics that appear later join. Internal topics only by full name
	Partitions []TopicPartition // manual assignment: no membership, no sharing
	From       Start
	MaxBytes   int // bytes of records in one Fetch, but at least one batch; default 4 MiB

	// WholeTopics gives all partitions of a topic to the same member of the group; all members have to agree on it. A
	// log that one process owns need not obey: its members are in that process.
	WholeTopics bool

	// Assigned is called inside Poll, before the first fetch from these partitions, with the offsets at which
	// reading will start; it may call Seek. Revoked is called inside Poll after the last: by then the caller has
	// finished with all that earlier polls returned, so a partition changes hands only between batches, and the caller may Commit.
	Assigned func(ctx context.Context, start Offsets) error
	Revoked  func(ctx context.Context, lost []TopicPartition) error
}

// Consumer reads committed records, in order in each partition, fair between partitions. It belongs to one goroutine.
type Consumer interface {
	// Poll blocks until there are records, an offset moved past something invisible (Fetch without records), or ctx
	// ends. The fetch stays valid until the next Poll. A position that the log no longer has is *OutOfRangeError; the
	// partition stays paused until Seek. A damaged batch is *CorruptError, likewise.
	Poll(ctx context.Context, maxRecords int) (Fetch, error)
	// Seek makes next the offset of the next record of an assigned partition.
	Seek(tp TopicPartition, next int64) error
	// Pause keeps partitions out of Poll until Resume; they stay assigned.
	Pause(tps ...TopicPartition)
	Resume(tps ...TopicPartition)
	// Assignment returns the partitions that are assigned now, and the offset of the next record of each.
	Assignment() Offsets
	// Commit stores the offset of the next record to read, for partitions that are assigned. ErrNotAssigned for others.
	Commit(ctx context.Context, next Offsets) error
	// Close leaves the group; the partitions go to the others.
	Close(ctx context.Context) error
}

// Fetch is what one Poll returned of one partition.
type Fetch struct {
	TopicPartition
	Records       []Record
	Next          int64 // the offset to commit once the records are dealt with; past control records and holes
	HighWatermark int64 // end of what committed readers may see, at the time of the poll
}

// Offsets maps partitions to the offset of the next record.
type Offsets map[TopicPartition]int64

// Group is a consumer group.
type Group struct {
	Name    string
	Members []Member
	Offsets Offsets // committed
}

// Member is one consumer of a group.
type Member struct {
	ID         string
	Partitions []TopicPartition
}
