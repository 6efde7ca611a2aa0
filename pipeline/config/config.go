// Package config reads pipelines.yaml.
//
// It promises that nothing in the file is guessed or ignored: an unknown key, a repeated key and a wrong type are
// errors with file, line, key path and the nearest valid key, and all of them are found in one reading. It promises
// that text stays as written and that inserted values (${NAME}, ${file:…}) never show in an error. It connects to
// nothing and writes nothing. The commands call Load; a connector reads its own part through the connectors.Decode that
// Load hands to it, so its errors look the same.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// DefaultPath is the file that commands read when none is named.
const DefaultPath = "pipelines.yaml"

// Off closes a listener.
const Off = "off"

// maxFile bounds a configuration file.
const maxFile = 4 << 20

// Config is a whole file, with defaults filled in.
type Config struct {
	Path     string // the file; empty for Default
	Log      Log
	HTTP     HTTP
	Registry Registry
	Tracing  *Tracing // nil: nothing is traced
	Sources  []Source // in the order of the file
	Sinks    []Sink   // in the order of the file
	Secrets  Secrets

	lines map[string]int // of each value, by its path
}

// Log says where the log is and what new topics are made with.
type Log struct {
	Dir    string `yaml:"dir"`    // the embedded log; default data/log
	Listen string `yaml:"listen"` // Kafka protocol; 127.0.0.1:9092; off

	Listener `yaml:",inline"`
	Cluster  `yaml:",inline"`
	Topics   Topics `yaml:"topics"`
}

// Topics are the defaults for new topics.
type Topics struct {
	Partitions     int32           `yaml:"partitions"`       // 4
	Retention      time.Duration   `yaml:"retention"`        // 168h; 0 keeps records for ever
	RetentionBytes connectors.Size `yaml:"retention_bytes"`  // per partition; 0: no limit
	Compression    string          `yaml:"compression"`      // none gzip snappy lz4 zstd; zstd
	SegmentBytes   connectors.Size `yaml:"segment_bytes"`    // a new file at this size; 1GiB
	SegmentAge     time.Duration   `yaml:"segment_age"`      // a new file at this age; 168h
	MaxRecordBytes connectors.Size `yaml:"max_record_bytes"` // a larger record is refused; 64MiB
}

// Batch bounds what moves in one step. Zero takes the default of connectors.Limits.
type Batch struct {
	Rows  int             `yaml:"rows"`
	Bytes connectors.Size `yaml:"bytes"`
	Wait  time.Duration   `yaml:"wait"` // how long a sink collects before it writes less than a full batch; 200ms
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Log: Log{
			Dir: "data/log", Listen: "127.0.0.1:9092",
			Topics: Topics{
				Partitions: 4, Retention: 168 * time.Hour, Compression: "zstd",
				SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, MaxRecordBytes: 64 << 20,
			},
		},
		HTTP: HTTP{Listen: "127.0.0.1:8080"},
	}
}

// Load reads a file and lets every connector read its part. The error is Errors when the file could be read.
func Load(path string, registry connectors.Registry) (Config, error) {
	text, err := readFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, text, registry, os.LookupEnv)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than 4 MiB", path)
	}
	return text, err
}

// Parse is Load on text that was read from path, with the environment behind lookup.
func Parse(path string, text []byte, registry connectors.Registry, lookup func(string) (string, bool)) (Config, error) {
	d := newDecoder(path, lookup)
	c := Default()
	c.Path = path
	if root := d.parse(text); root != nil {
		d.insert(root, "")
		d.document(root, &c, registry)
	}
	c.Secrets, c.lines = newSecrets(d.in.values), d.lines
	if len(d.errs) > 0 {
		return c, d.errs.sorted()
	}
	return c, nil
}

// Decode fills a struct with yaml tags from another file, as strictly as a configuration is read. A field of type
// yaml.Node takes what stands there as it is. The error is Errors.
func Decode(path string, text []byte, into any) error {
	d := newDecoder(path, os.LookupEnv)
	if root := d.parse(text); root != nil {
		d.insert(root, "")
		d.value(root, reflect.ValueOf(into).Elem(), "")
	}
	if len(d.errs) > 0 {
		return d.errs.sorted()
	}
	return nil
}

func newDecoder(path string, lookup func(string) (string, bool)) *decoder {
	return &decoder{
		file:    path,
		in:      inserter{lookup: lookup, values: map[string]string{}},
		written: map[*yaml.Node]string{},
		broken:  map[*yaml.Node]bool{},
		lines:   map[string]int{},
	}
}

// parse returns the top node of the one document in text, nil if there is none.
func (d *decoder) parse(text []byte) *yaml.Node {
	reader := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	switch err := reader.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	switch err := reader.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
		return nil
	default:
		d.fail(second.Line, "", "a second document begins here; a file holds one")
	}
	if len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// syntax takes the line out of an error of the YAML parser, which has it in its text only.
func (d *decoder) syntax(err error) {
	var line int
	problem := err.Error()
	if n, _ := fmt.Sscanf(problem, "yaml: line %d:", &line); n == 1 {
		problem = problem[len(fmt.Sprintf("yaml: line %d: ", line)):]
	}
	d.fail(line, "", "not valid YAML: "+problem)
}

// document decodes the top of the file.
func (d *decoder) document(root *yaml.Node, c *Config, registry connectors.Registry) {
	list, ok := d.entries(root, "")
	if !ok {
		return
	}
	names := []string{"log", "http", "registry", "tracing", "sources", "sinks"}
	taken := map[string]*yaml.Node{}
	for _, e := range list {
		switch e.name {
		case "log":
			d.value(e.value, reflect.ValueOf(&c.Log).Elem(), "log")
		case "http":
			d.value(e.value, reflect.ValueOf(&c.HTTP).Elem(), "http")
		case "registry":
			d.value(e.value, reflect.ValueOf(&c.Registry).Elem(), "registry")
		case "tracing":
			c.Tracing = d.tracing(e.value)
		case "sources":
			c.Sources = d.sources(e.value, registry, taken)
		case "sinks":
			c.Sinks = d.sinks(e.value, registry, taken)
		default:
			d.unknown(e, "", "unknown key", names)
		}
	}
	d.unread(c)
}

// Validate checks what the log part says.
func (l *Log) Validate() error {
	var errs []error
	if l.Dir == "" {
		errs = append(errs, errors.New("dir is empty"))
	}
	errs = append(errs, l.Listener.validate(l.Listen), l.Cluster.validate())
	return errors.Join(errs...)
}

// maxPartitions keeps a slip of the finger from making a directory for every number.
const maxPartitions = 10_000

// Validate checks the defaults for topics.
func (t *Topics) Validate() error {
	var errs []error
	if t.Partitions < 1 || t.Partitions > maxPartitions {
		errs = append(errs, fmt.Errorf("partitions must be from 1 to %d", maxPartitions))
	}
	if _, err := log.ParseCompression(t.Compression); err != nil {
		errs = append(errs, fmt.Errorf("compression is not one of none, gzip, snappy, lz4, zstd"))
	}
	if t.SegmentBytes < 1<<10 || t.MaxRecordBytes < 1<<10 {
		errs = append(errs, errors.New("segment_bytes and max_record_bytes must be at least 1KiB"))
	}
	if t.SegmentAge <= 0 {
		errs = append(errs, errors.New("segment_age must be above 0"))
	}
	return errors.Join(errs...)
}

// TopicConfig returns the defaults in the terms of the log.
func (t Topics) TopicConfig() log.TopicConfig {
	compression, _ := log.ParseCompression(t.Compression) // Validate has seen it
	retention := t.Retention
	if retention == 0 {
		retention = log.Forever
	}
	return log.TopicConfig{
		Partitions: t.Partitions, Retention: retention, RetentionBytes: int64(t.RetentionBytes), Compression: &compression,
		SegmentBytes: int64(t.SegmentBytes), SegmentAge: t.SegmentAge, MaxRecordBytes: int(t.MaxRecordBytes),
	}
}

// Validate checks the bounds.
func (b *Batch) Validate() error {
	if b.Rows < 0 || b.Bytes < 0 {
		return errors.New("rows and bytes must not be negative")
	}
	return nil
}
