package log

import (
	"errors"
	"fmt"
)

// Callers compare with errors.Is.
var (
	ErrTopicExists    = errors.New("topic exists")
	ErrUnknownTopic   = errors.New("unknown topic or partition")
	ErrFenced         = errors.New("producer fenced by a newer one with the same id")
	ErrGroupActive    = errors.New("group has members")
	ErrNotAssigned    = errors.New("partition is not assigned to this consumer")
	ErrRecordTooLarge = errors.New("record too large")
	ErrFull           = errors.New("no space left for the log") // writing resumes by itself once there is room
	ErrLocked         = errors.New("log directory is in use by another process")
	ErrClosed         = errors.New("log is closed")
)

// OutOfRangeError says that a consumer's offset is not in the partition any more, or not yet.
type OutOfRangeError struct {
	TopicPartition
	Offset   int64 // where the consumer wanted to read
	LogStart int64
	End      int64
}

func (e *OutOfRangeError) Error() string {
	if e.Offset < e.LogStart {
		return fmt.Sprintf("%s-%d: offsets %d to %d are gone: retention removed them before they were read",
			e.Topic, e.Partition, e.Offset, e.LogStart-1)
	}
	return fmt.Sprintf("%s-%d: offset %d is past the end %d", e.Topic, e.Partition, e.Offset, e.End)
}

// CorruptError says that stored bytes are damaged. First and Last bound the offsets that cannot be read; what is before
// and after them can.
type CorruptError struct {
	TopicPartition
	Path        string // the segment file
	Position    int64  // byte in the file where the damage was found
	First, Last int64
	Detail      string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s-%d: offsets %d to %d are damaged: %s at byte %d: %s",
		e.Topic, e.Partition, e.First, e.Last, e.Path, e.Position, e.Detail)
}
