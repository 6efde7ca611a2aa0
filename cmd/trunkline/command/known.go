package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/segment"
	"github.com/trunkline/trunkline/log/vfs"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

// checkTransforms holds the transforms of the sinks against the tables in the log. What a source reads is in no log, since
// its transforms stand before it.
func checkTransforms(cfg config.Config) error {
	if !slices.ContainsFunc(cfg.Sinks, func(s config.Sink) bool { return len(s.Transforms) > 0 }) {
		return nil
	}
	tables, err := knownTables(cfg)
	if err != nil {
		return err
	}
	none := func(string) []*connectors.Table { return nil }
	return cfg.CheckTransforms(none, func(name string) []*connectors.Table {
		i := slices.IndexFunc(cfg.Sinks, func(s config.Sink) bool { return s.Name == name })
		var list []*connectors.Table
		for _, t := range tables {
			if slices.ContainsFunc(topicsOf(cfg, t), func(topic string) bool { return takes(cfg.Sinks[i], topic) }) {
				list = append(list, t)
			}
		}
		return list
	})
}

// takes reports whether a topic is one of a sink's.
func takes(s config.Sink, topic string) bool {
	return slices.ContainsFunc(s.Topics, func(pattern string) bool { return pattern == topic || connectors.MatchName(pattern, topic) })
}

// topicsOf returns the topics that a table may be in: which source wrote it, its schema does not say.
func topicsOf(cfg config.Config, t *connectors.Table) []string {
	var out []string
	for _, s := range cfg.Sources {
		out = append(out, ingest.TopicName(s.Topic, s.Name, t))
	}
	return out
}

// knownTables returns the newest version of every table that an embedded log has seen. It reads the files of the log,
// live or dead, and writes nothing. A log that is not there, or is a cluster, has seen none.
func knownTables(cfg config.Config) ([]*connectors.Table, error) {
	if len(cfg.Log.Brokers) > 0 {
		return nil, nil
	}
	dir, err := filepath.Abs(filepath.Join(cfg.Log.Dir, codec.SchemasTopic+"-0"))
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+segment.LogSuffix))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	newest := map[string]*connectors.Table{}
	for _, path := range paths {
		if err := readTables(path, newest); err != nil && !errors.Is(err, fs.ErrNotExist) { // a segment that compaction takes away
			return nil, fmt.Errorf("read the tables in the log: %w", err)
		}
	}
	list := make([]*connectors.Table, 0, len(newest))
	for _, t := range newest {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *connectors.Table) int {
		return cmp.Or(cmp.Compare(a.FullName(), b.FullName()), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Database, b.Database))
	})
	return list, nil
}

// readTables takes the versions out of one segment. A batch that is half written or damaged is left out.
func readTables(path string, newest map[string]*connectors.Table) error {
	var decoder batch.Decoder
	for item, err := range segment.Dump(vfs.OS{}, path, segment.Options{Partition: log.TopicPartition{Topic: codec.SchemasTopic}}) {
		if err != nil {
			return err
		}
		if item.Damage != nil || item.Batch == nil || item.Batch.IsControl() {
			continue
		}
		decoder.Reset()
		records, err := decoder.Decode(nil, item.Batch)
		if err != nil {
			continue
		}
		for _, r := range records {
			if t, err := codec.ReadTable(r.Value); err == nil {
				newest[t.Topic+"/"+t.Database+"/"+t.FullName()] = t
			}
		}
	}
	return nil
}

// surveySources holds the transforms of sources against the tables in their databases.
func (r *checkup) surveySources(ctx context.Context, cfg config.Config) {
	tables := map[string][]*connectors.Table{}
	for _, s := range cfg.Sources {
		if len(s.Transforms) == 0 || s.Survey == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		offer, err := s.Survey(ctx, connectors.NewEnv(s.Name))
		cancel()
		if err != nil {
			continue // the check of the source says what is wrong
		}
		for _, t := range offer.Tables {
			if t.Table != nil {
				tables[s.Name] = append(tables[s.Name], t.Table)
			}
		}
	}
	none := func(string) []*connectors.Table { return nil }
	var problems config.Errors
	if !errors.As(cfg.CheckTransforms(func(name string) []*connectors.Table { return tables[name] }, none), &problems) {
		return
	}
	for _, p := range problems {
		name := strings.Split(p.Path, ".")[1] // a name has no dot
		problem := p.Problem
		if p.Hint != "" {
			problem += fmt.Sprintf("; did you mean %q?", p.Hint)
		}
		r.OK = false
		r.Findings = append(r.Findings, finding{Role: "source", Name: name, Finding: connectors.Finding{Severity: connectors.Fatal,
			Subject: fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Path), Problem: problem}})
	}
}
