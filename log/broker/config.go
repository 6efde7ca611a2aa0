package broker

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/trunkline/trunkline/log"
)

// Kafka's names for the settings of a topic.
const (
	cleanupPolicy   = "cleanup.policy"
	retentionMillis = "retention.ms"
	retentionBytes  = "retention.bytes"
	segmentBytes    = "segment.bytes"
	segmentMillis   = "segment.ms"
	compressionType = "compression.type"
	maxMessageBytes = "max.message.bytes"
)

// settable are the settings that do something here.
var settable = []string{cleanupPolicy, compressionType, maxMessageBytes, retentionBytes, retentionMillis, segmentBytes, segmentMillis}

// fixed are settings of Kafka's that always have one value here. Clients that set them to it are not refused.
var fixed = map[string]string{
	"message.timestamp.type":                  "CreateTime",
	"min.insync.replicas":                     "1",
	"unclean.leader.election.enable":          "false",
	"preallocate":                             "false",
	"message.format.version":                  "3.0-IV1",
	"index.interval.bytes":                    "4096",
	"file.delete.delay.ms":                    "0",
	"flush.messages":                          "1",
	"flush.ms":                                "0",
	"remote.storage.enable":                   "false",
	"message.downconversion.enable":           "false",
	"segment.jitter.ms":                       "0",
	"min.cleanable.dirty.ratio":               "0.5",
	"min.compaction.lag.ms":                   "0",
	"max.compaction.lag.ms":                   "9223372036854775807",
	"delete.retention.ms":                     "86400000",
	"segment.index.bytes":                     "10485760",
	"message.timestamp.before.max.ms":         "9223372036854775807",
	"message.timestamp.after.max.ms":          "9223372036854775807",
	"message.timestamp.difference.max.ms":     "9223372036854775807",
	"leader.replication.throttled.replicas":   "",
	"follower.replication.throttled.replicas": "",
}

// lenient are fixed settings whose value only tunes: any value is taken and none changes anything.
var lenient = []string{"min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms",
	"segment.index.bytes", "segment.jitter.ms", "index.interval.bytes", "file.delete.delay.ms", "flush.messages", "flush.ms",
	"message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "message.timestamp.difference.max.ms", "preallocate",
	"message.format.version", "message.downconversion.enable"}

func invalidConfig(format string, args ...any) error {
	return fmt.Errorf("%w: %s", kerr.InvalidConfig, fmt.Sprintf(format, args...))
}

// setTopicConfig sets one setting in c. No value means the log's default.
func setTopicConfig(c *log.TopicConfig, name string, value *string) error {
	if value == nil {
		resetTopicConfig(c, name)
		return nil
	}
	v := strings.TrimSpace(*value)
	switch name {
	case cleanupPolicy:
		return setCleanupPolicy(c, v)
	case compressionType:
		if v == "producer" {
			c.Compression = nil
			return nil
		}
		codec, err := log.ParseCompression(strings.Replace(v, "uncompressed", "none", 1))
		if err != nil {
			return invalidConfig("%s: %v", name, err)
		}
		c.Compression = &codec
		return nil
	}
	if want, ok := fixed[name]; ok {
		if !strings.EqualFold(v, want) && !slices.Contains(lenient, name) {
			return invalidConfig("%s is always %q here", name, want)
		}
		return nil
	}
	if !slices.Contains(settable, name) {
		return invalidConfig("there is no setting %q; these can be set: %s", name, strings.Join(settable, ", "))
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return invalidConfig("%s is no whole number", name)
	}
	return setNumber(c, name, n)
}

func setCleanupPolicy(c *log.TopicConfig, v string) error {
	policies := strings.Split(strings.ReplaceAll(v, " ", ""), ",")
	for _, p := range policies {
		if p != "compact" && p != "delete" {
			return invalidConfig("%s is not compact, delete or both", cleanupPolicy)
		}
	}
	c.Compact = slices.Contains(policies, "compact")
	switch {
	case c.Compact && !slices.Contains(policies, "delete"):
		c.Retention = log.Forever
	case c.Compact && c.Retention == 0:
		c.Retention = defaultRetention
	case c.Retention == log.Forever:
		c.Retention = 0
	}
	return nil
}

// defaultRetention is Kafka's and the log's.
const defaultRetention = 168 * time.Hour

// maxMillis is the longest that a duration in nanoseconds can hold.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

func setNumber(c *log.TopicConfig, name string, n int64) error {
	low := int64(1)
	switch name {
	case retentionMillis, retentionBytes:
		low = -1
	}
	if n < low {
		return invalidConfig("%s must be at least %d", name, low)
	}
	switch name {
	case retentionMillis:
		c.Retention = time.Duration(min(n, maxMillis)) * time.Millisecond
		switch {
		case n == -1 || n >= maxMillis:
			c.Retention = log.Forever
		case n == 0:
			c.Retention = time.Nanosecond
		}
	case retentionBytes:
		c.RetentionBytes = max(n, 0)
	case segmentBytes:
		c.SegmentBytes = n
	case segmentMillis:
		c.SegmentAge = time.Duration(min(n, maxMillis)) * time.Millisecond
	case maxMessageBytes:
		c.MaxRecordBytes = int(min(n, math.MaxInt32))
	}
	return nil
}

func resetTopicConfig(c *log.TopicConfig, name string) {
	switch name {
	case cleanupPolicy:
		if c.Compact {
			c.Retention = 0
		}
		c.Compact = false
	case compressionType:
		c.Compression = nil
	case retentionMillis:
		c.Retention = 0
	case retentionBytes:
		c.RetentionBytes = 0
	case segmentBytes:
		c.SegmentBytes = 0
	case segmentMillis:
		c.SegmentAge = 0
	case maxMessageBytes:
		c.MaxRecordBytes = 0
	}
}

// Where a setting comes from, in Kafka's numbers.
const (
	fromTopic   int8 = 1
	fromBroker  int8 = 4
	fromDefault int8 = 5
)

// entry is a setting as it is described.
type entry struct {
	name, value string
	source      int8
	readOnly    bool
	kind        int8 // Kafka's number of its type
}

// Kafka's numbers of types of settings.
const (
	kindBool   int8 = 1
	kindString int8 = 2
	kindInt    int8 = 3
	kindLong   int8 = 5
	kindList   int8 = 7
)

// describeTopicConfig lists the settings of a topic by name.
func describeTopicConfig(c log.TopicConfig) []entry {
	retention, limit := int64(-1), int64(-1)
	if c.Retention != log.Forever {
		retention = c.Retention.Milliseconds()
	}
	if c.RetentionBytes > 0 {
		limit = c.RetentionBytes
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	out := []entry{
		{name: cleanupPolicy, value: policyOf(c), source: fromTopic, kind: kindList},
		{name: compressionType, value: "producer", source: fromDefault, kind: kindString},
		{name: maxMessageBytes, value: number(int64(c.MaxRecordBytes)), source: fromTopic, kind: kindInt},
		{name: retentionBytes, value: number(limit), source: fromTopic, kind: kindLong},
		{name: retentionMillis, value: number(retention), source: fromTopic, kind: kindLong},
		{name: segmentBytes, value: number(c.SegmentBytes), source: fromTopic, kind: kindInt},
		{name: segmentMillis, value: number(c.SegmentAge.Milliseconds()), source: fromTopic, kind: kindLong},
	}
	for name, value := range fixed {
		out = append(out, entry{name: name, value: value, source: fromDefault, readOnly: true, kind: kindString})
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out
}

// policyOf is Kafka's name for what happens to old records.
func policyOf(c log.TopicConfig) string {
	switch {
	case c.Compact && c.Retention == log.Forever:
		return "compact"
	case c.Compact:
		return "compact,delete"
	}
	return "delete"
}
