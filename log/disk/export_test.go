package disk

import "time"

// Maintain does one round of retention and compaction as if it were that time.
func (l *Log) Maintain(now time.Time) { l.maintain(now) }

// RollOwnTopicsAt returns the options with small segments for the log's own topics.
func (o Options) RollOwnTopicsAt(bytes int64) Options {
	o.ownSegmentBytes = bytes
	return o
}
