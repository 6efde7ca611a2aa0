package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline"
)

// Topic describes a topic with its partitions.
type Topic struct {
	Name       string            `json:"name"`
	Internal   bool              `json:"internal,omitempty"`
	Config     map[string]string `json:"config"`
	Records    int64             `json:"records"` // sum over the partitions
	Partitions []Partition       `json:"partitions"`
}

// Partition describes a partition at one moment.
type Partition struct {
	Partition     int32 `json:"partition"`
	LogStart      int64 `json:"log_start"`
	HighWatermark int64 `json:"high_watermark"`
	LastStable    int64 `json:"last_stable"`
	Records       int64 `json:"records"` // offsets between log start and high watermark
	Bytes         int64 `json:"bytes"`
	Segments      int   `json:"segments"`

	// On a cluster.
	Leader   *int32  `json:"leader,omitempty"`
	Replicas []int32 `json:"replicas,omitempty"`
	InSync   []int32 `json:"in_sync,omitempty"`
}

// NewTopic is the body that creates a topic. Config has Kafka's names or those of log.topics.
type NewTopic struct {
	Partitions int32             `json:"partitions,omitempty"` // 0: the log's default
	Config     map[string]string `json:"config,omitempty"`
}

func (s *server) listTopics(w http.ResponseWriter, r *http.Request) {
	topics, err := s.Journal.Topics(r.Context())
	if err != nil {
		problem(w, err)
		return
	}
	list := make([]pipeline.TopicStatus, 0, len(topics))
	for _, t := range topics {
		if !t.Internal() || r.URL.Query().Has("internal") {
			list = append(list, pipeline.DescribeTopic(t))
		}
	}
	reply(w, list)
}

func (s *server) describeTopic(w http.ResponseWriter, r *http.Request) {
	t, err := s.Journal.Topic(r.Context(), r.PathValue("topic"))
	if err != nil {
		problem(w, fmt.Errorf("topic %s: %w", r.PathValue("topic"), err))
		return
	}
	out := Topic{Name: t.Name, Internal: t.Internal(), Config: describeConfig(t.Config)}
	for i, p := range t.Partitions {
		out.Records += p.HighWatermark - p.LogStart
		described := Partition{
			Partition: int32(i), LogStart: p.LogStart, HighWatermark: p.HighWatermark, LastStable: p.LastStable,
			Records: p.HighWatermark - p.LogStart, Bytes: p.Bytes, Segments: p.Segments, Replicas: p.Replicas, InSync: p.InSync,
		}
		if len(p.Replicas) > 0 {
			described.Leader = &p.Leader
		}
		out.Partitions = append(out.Partitions, described)
	}
	reply(w, out)
}

func (s *server) createTopic(w http.ResponseWriter, r *http.Request) {
	var body NewTopic
	name := r.PathValue("topic")
	err := receive(w, r, &body)
	if err == nil {
		err = changeable(name)
	}
	if err != nil {
		problem(w, err)
		return
	}
	c, err := parseConfig(body.Config)
	if err == nil && (body.Partitions < 0 || body.Partitions > maxPartitions) {
		err = badRequest("partitions must be from 1 to %d", maxPartitions)
	}
	if err == nil {
		c.Partitions = body.Partitions
		err = s.Journal.CreateTopic(r.Context(), name, c)
	}
	if err != nil {
		problem(w, err) // it names the topic already
		return
	}
	s.Logger.Info("created topic", "topic", name)
	s.describeTopic(w, r)
}

func (s *server) deleteTopic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("topic")
	if err := changeable(name); err != nil {
		problem(w, err)
		return
	}
	if err := s.Journal.DeleteTopic(r.Context(), name); err != nil {
		problem(w, err) // it names the topic already
		return
	}
	s.Logger.Info("deleted topic", "topic", name)
	reply(w, struct {
		Deleted string `json:"deleted"`
	}{name})
}

// maxPartitions is the same limit as in the configuration.
const maxPartitions = 10_000

// changeable keeps people's hands off the topics that hold marks, offsets and schemas.
func changeable(name string) error {
	if err := log.CheckTopicName(name); err != nil {
		return badRequest("%v", err)
	}
	if log.IsInternal(name) {
		return badRequest("topic %s is internal: the pipeline alone writes, creates and deletes it", name)
	}
	return nil
}

// parseConfig reads the settings of a topic. Kafka's name and the one of log.topics mean the same.
func parseConfig(settings map[string]string) (log.TopicConfig, error) {
	var c log.TopicConfig
	for name, text := range settings {
		var err error
		switch name {
		case "retention":
			c.Retention, err = parseAge(text)
		case "retention.ms":
			c.Retention, err = parseMillis(text)
		case "retention.bytes", "retention_bytes":
			c.RetentionBytes, err = parseSize(text)
		case "compression.type", "compression":
			var codec log.Compression
			codec, err = log.ParseCompression(text)
			c.Compression = &codec
		case "cleanup.policy":
			c.Compact = text == "compact"
			if text != "compact" && text != "delete" {
				err = fmt.Errorf("not one of delete, compact")
			}
		case "segment.bytes", "segment_bytes":
			c.SegmentBytes, err = parseSize(text)
		case "segment.ms":
			c.SegmentAge, err = parseMillis(text)
		case "segment_age":
			c.SegmentAge, err = parseAge(text)
		case "max.message.bytes", "max_record_bytes":
			var n int64
			n, err = parseSize(text)
			c.MaxRecordBytes = int(n)
		default:
			return c, badRequest("config %s: unknown; valid are retention.ms, retention.bytes, compression.type, cleanup.policy, "+
				"segment.bytes, segment.ms, max.message.bytes, and retention, segment_age with a unit (168h)", name)
		}
		if err != nil {
			return c, badRequest("config %s=%s: %v", name, text, err)
		}
	}
	return c, nil
}

func parseMillis(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > int64(1<<63-1)/int64(time.Millisecond) {
		return 0, fmt.Errorf("not a number of milliseconds")
	}
	if n < 0 {
		return log.Forever, nil
	}
	return time.Duration(n) * time.Millisecond, nil
}

func parseAge(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("not a duration such as 168h")
	}
	if d == 0 {
		return log.Forever, nil
	}
	return d, nil
}

func parseSize(text string) (int64, error) {
	if text == "-1" {
		return 0, nil // Kafka's word for no limit
	}
	var s connectors.Size
	err := s.UnmarshalText([]byte(text))
	return int64(s), err
}

// describeConfig is the inverse of parseConfig, under Kafka's names.
func describeConfig(c log.TopicConfig) map[string]string {
	out := map[string]string{
		"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete", "compression.type": "zstd",
		"segment.bytes": strconv.FormatInt(c.SegmentBytes, 10), "segment.ms": strconv.FormatInt(c.SegmentAge.Milliseconds(), 10),
		"max.message.bytes": strconv.Itoa(c.MaxRecordBytes),
	}
	if c.Retention >= 0 {
		out["retention.ms"] = strconv.FormatInt(c.Retention.Milliseconds(), 10)
	}
	if c.RetentionBytes > 0 {
		out["retention.bytes"] = strconv.FormatInt(c.RetentionBytes, 10)
	}
	if c.Compact {
		out["cleanup.policy"] = "compact"
	}
	if c.Compression != nil {
		out["compression.type"] = c.Compression.String()
	}
	return out
}
