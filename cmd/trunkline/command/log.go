package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/segment"
	"github.com/trunkline/trunkline/log/vfs"
	"github.com/trunkline/trunkline/pipeline/api"
)

func (a *app) logCommand() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Look into the files of a log, live or dead, or copy it to a cluster"}
	c.AddCommand(a.logDump(), a.logVerify(), a.logMirror())
	return c
}

// partitionOf reads topic and partition from the name of a partition's folder, TOPIC-N.
func partitionOf(dir string) log.TopicPartition {
	name := filepath.Base(dir)
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if i < 0 || err != nil {
		return log.TopicPartition{Topic: name}
	}
	return log.TopicPartition{Topic: name[:i], Partition: int32(n)}
}

// dumped is one batch of a segment, as JSON.
type dumped struct {
	Position      int64        `json:"position"`
	Size          int64        `json:"size"`
	BaseOffset    int64        `json:"base_offset"`
	LastOffset    int64        `json:"last_offset"`
	Count         int32        `json:"count"`
	MaxTimestamp  int64        `json:"max_timestamp"`
	Compression   string       `json:"compression"`
	ProducerID    int64        `json:"producer_id"`
	ProducerEpoch int16        `json:"producer_epoch"`
	Transactional bool         `json:"transactional"`
	Control       string       `json:"control,omitempty"` // commit or abort
	Damage        string       `json:"damage,omitempty"`
	Records       []api.Record `json:"records,omitempty"`
}

func (a *app) logDump() *cobra.Command {
	var records bool
	c := &cobra.Command{
		Use: "dump SEGMENT", Short: "Print the batches of a segment file", Args: cobra.ExactArgs(1),
		Long: `Print the batches of a segment file (DIR/TOPIC-N/00000000000000000000.log), of a live
log or a dead one. A half-written batch at the end of a live one shows as damage.`,
		RunE: func(c *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("dump segment: %w", err)
			}
			return a.dump(path, records)
		},
	}
	c.Flags().BoolVar(&records, "records", false, "the records too")
	c.Flags().BoolVar(&a.json, "json", false, "print a line of JSON for each batch")
	return c
}

func (a *app) dump(path string, withRecords bool) error {
	tp := partitionOf(filepath.Dir(path))
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	var decoder batch.Decoder
	for item, err := range segment.Dump(vfs.OS{}, path, segment.Options{Partition: tp}) {
		if err != nil {
			return err
		}
		d := describeBatch(item)
		if withRecords && d.Damage == "" && d.Control == "" {
			decoder.Reset()
			list, err := decoder.Decode(nil, item.Batch)
			if err != nil {
				d.Damage = err.Error()
			}
			for _, r := range list {
				d.Records = append(d.Records, api.NewRecord(tp, r))
			}
		}
		if a.json {
			err = encoder.Encode(d)
		} else {
			err = a.printBatch(d)
		}
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

func describeBatch(item segment.Item) dumped {
	d := dumped{Position: item.Position, Size: item.Size}
	if item.Damage != nil {
		d.BaseOffset, d.LastOffset, d.Damage = item.Damage.First, item.Damage.Last, item.Damage.Error()
		return d
	}
	v := item.Batch
	d.BaseOffset, d.LastOffset, d.Count, d.MaxTimestamp = v.BaseOffset(), v.LastOffset(), v.Count(), v.MaxTimestamp()
	d.Compression, d.Transactional = v.Codec().String(), v.Transactional()
	d.ProducerID, d.ProducerEpoch = v.Producer().ID, v.Producer().Epoch
	if v.IsControl() {
		d.Control = "unreadable"
		if marker, err := v.Marker(); err == nil {
			d.Control = marker.String()
		}
	}
	return d
}

func (a *app) printBatch(d dumped) error {
	if d.Damage != "" {
		_, err := fmt.Fprintf(a.out, "at %d: %s\n", d.Position, d.Damage)
		return err
	}
	what := fmt.Sprintf("%d records", d.Count)
	if d.Control != "" {
		what = d.Control
	}
	line := fmt.Sprintf("at %d: offsets %d to %d, %s, %s, %s, %d bytes", d.Position, d.BaseOffset, d.LastOffset, what,
		d.Compression, time.UnixMilli(d.MaxTimestamp).UTC().Format("2006-01-02T15:04:05.000Z"), d.Size)
	if d.Transactional {
		line += fmt.Sprintf(", producer %d epoch %d", d.ProducerID, d.ProducerEpoch)
	}
	fmt.Fprintln(a.out, line)
	for _, r := range d.Records {
		fmt.Fprintf(a.out, "  %d  %s  %s\n", *r.Offset, shown(r.KeyBytes()), shown(r.ValueBytes()))
	}
	return nil
}

// shown prints bytes as text that cannot disturb a terminal, and nothing as null.
func shown(b []byte) string {
	if b == nil {
		return "null"
	}
	return strconv.Quote(string(b))
}

// verified is what log verify found in one segment.
type verified struct {
	Path    string   `json:"path"`
	Records int64    `json:"records"`
	Bytes   int64    `json:"bytes"`
	Tail    int64    `json:"tail,omitempty"` // bytes of a batch that is not complete
	Damage  []string `json:"damage,omitempty"`
	Index   []string `json:"index,omitempty"`
}

func (a *app) logVerify() *cobra.Command {
	c := &cobra.Command{
		Use: "verify DIR", Short: "Check every batch, record and index below a folder", Args: cobra.ExactArgs(1),
		Long: `Check every batch, record and index of a log, or of one of its partitions, live or
dead. Nothing is changed. The exit code is 1 when something is damaged.`,
		RunE: func(c *cobra.Command, args []string) error {
			list, err := verifyAll(args[0])
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return usagef("there is no segment below %s", args[0])
			}
			return a.printVerified(args[0], list)
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON for machines")
	return c
}

// verifyAll verifies every segment below root.
func verifyAll(root string) ([]verified, error) {
	bases := map[string][]int64{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil // retention removed it just now
		}
		if err != nil {
			return err
		}
		if base, ok := segment.ParseName(d.Name(), segment.LogSuffix); ok {
			bases[filepath.Dir(path)] = append(bases[filepath.Dir(path)], base)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("verify log: %w", err)
	}
	var out []verified
	for _, dir := range slices.Sorted(maps.Keys(bases)) {
		slices.Sort(bases[dir])
		for i, base := range bases[dir] {
			next := int64(-1)
			if i+1 < len(bases[dir]) {
				next = bases[dir][i+1]
			}
			report, err := segment.Verify(vfs.OS{}, dir, base, next, segment.Options{Partition: partitionOf(dir)})
			if err != nil {
				return nil, fmt.Errorf("verify log: %w", err)
			}
			v := verified{Path: filepath.Join(dir, segment.Name(base, segment.LogSuffix)), Records: report.Records,
				Bytes: report.Bytes, Tail: report.Tail, Index: report.Index}
			for _, damage := range report.Damage {
				v.Damage = append(v.Damage, damage.Error())
			}
			out = append(out, v)
		}
	}
	return out, nil
}

func (a *app) printVerified(root string, list []verified) error {
	var records, bytes int64
	damaged := 0
	for _, v := range list {
		records, bytes, damaged = records+v.Records, bytes+v.Bytes, damaged+len(v.Damage)
	}
	if a.json {
		if err := a.printJSON(list); err != nil {
			return err
		}
	} else {
		for _, v := range list {
			for _, problem := range append(v.Damage, v.Index...) {
				fmt.Fprintf(a.out, "%s: %s\n", v.Path, problem)
			}
			if v.Tail > 0 {
				fmt.Fprintf(a.out, "%s: %d bytes at the end are a batch that is not complete; the next start cuts them\n", v.Path, v.Tail)
			}
		}
		fmt.Fprintf(a.out, "%d segments, %s records, %s: %d places are damaged\n", len(list), count(records), size(bytes), damaged)
	}
	if damaged > 0 {
		return fmt.Errorf("log %s is damaged in %d places; what is around them can be read", root, damaged)
	}
	return nil
}
