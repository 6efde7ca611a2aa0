package log

import (
	"fmt"
	"time"
)

// Compression is a codec of record batches; the numbers are Kafka's.
type Compression int8

const (
	CompressionNone Compression = iota
	CompressionGzip
	CompressionSnappy
	CompressionLZ4
	CompressionZstd
)

var compressionNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func (c Compression) String() string {
	if c < 0 || int(c) >= len(compressionNames) {
		return fmt.Sprintf("codec %d", int8(c))
	}
	return compressionNames[c]
}

// ParseCompression reads none, gzip, snappy, lz4 or zstd.
func ParseCompression(s string) (Compression, error) {
	for i, n := range compressionNames {
		if n == s {
			return Compression(i), nil
		}
	}
	return 0, fmt.Errorf("compression %q: not one of none, gzip, snappy, lz4, zstd", s)
}

// TopicConfig is what a topic is made with. Zero takes the log's default, which a fresh log has as in the comments.
type TopicConfig struct {
	Partitions     int32         // 4
	Retention      time.Duration // 168h; Forever keeps all
	RetentionBytes int64         // per partition; 0: no limit
	Compression    *Compression  // zstd
	Compact        bool          // keep the newest record of each key, beside or instead of retention by age
	SegmentBytes   int64         // roll at this size, 1 GiB
	SegmentAge     time.Duration // roll at this age, 168h
	MaxRecordBytes int           // refuse a record above it, 64 MiB
}

// Forever is a retention without end.
const Forever time.Duration = -1

// Topic describes a topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Config     TopicConfig // complete: no zero means default here
	Partitions []Partition // by number
}

// Partition describes a partition at one moment.
type Partition struct {
	LogStart      int64 // the oldest offset that can be read
	HighWatermark int64 // everything below is durable
	LastStable    int64 // everything below is decided; committed readers see up to here
	Bytes         int64 // on disk
	Segments      int

	// The rest is what a cluster tells; the embedded log leaves it zero.
	Leader      int32 // the broker that answers for the partition, -1 if there is none
	LeaderEpoch int32
	Replicas    []int32 // the brokers that hold it
	InSync      []int32 // those that are up to date
}

// Internal reports whether the topic is Trunkline's own.
func (t Topic) Internal() bool { return IsInternal(t.Name) }

// InternalPrefix begins the names of Trunkline's own topics.
const InternalPrefix = "_trunkline."

// IsInternal reports whether the name is of Trunkline's own topics.
func IsInternal(name string) bool {
	return len(name) >= len(InternalPrefix) && name[:len(InternalPrefix)] == InternalPrefix
}

// maxTopicName is Kafka's limit; a directory name adds the partition to it.
const maxTopicName = 249

// CheckTopicName applies Kafka's rule for names: 1 to 249 of letters, digits, dot, underscore and hyphen, and not . or ..
func CheckTopicName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > maxTopicName {
		return fmt.Errorf("topic name %q: needs 1 to %d characters", name, maxTopicName)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-' {
			return fmt.Errorf("topic name %q: %q is not a letter, digit, dot, underscore or hyphen", name, r)
		}
	}
	return nil
}
