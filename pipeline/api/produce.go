package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/trunkline/trunkline/log"
)

// Limits of one step of produce. A line holds a record as JSON, which at worst is six times as long as its bytes.
const (
	produceRecords = 5000
	produceBytes   = 4 << 20
	maxLine        = 6*(64<<20) + 1<<20
)

// Produced is the answer of produce.
type Produced struct {
	Records int64 `json:"records"`
}

// produce appends the records of the body, one JSON line each. What has arrived is appended as soon as no more is
// waiting, so a person who types sees each line go. After an error the lines before it may be in the log.
func (s *server) produce(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("topic")
	if err := changeable(name); err != nil {
		problem(w, err)
		return
	}
	if owner := s.Pipeline.Owner(name); owner != "" && !s.Pipeline.Config().Log.Foreign {
		problem(w, badRequest("produce to topic %s: source %s writes it, and nobody else may; log.allow_foreign_writes: true lifts that", name, owner))
		return
	}
	t, err := s.Journal.Topic(r.Context(), name)
	if err != nil {
		problem(w, fmt.Errorf("produce to topic %s: %w", name, err))
		return
	}
	p := appender{server: s, topic: name, partitions: int32(len(t.Partitions)), pending: map[int32][]log.Record{}}
	if err := p.readAll(r.Context(), bufio.NewReaderSize(r.Body, 64<<10)); err != nil {
		problem(w, fmt.Errorf("produce to topic %s after %d records: %w", name, p.done, err))
		return
	}
	reply(w, Produced{p.done})
}

// appender collects records by partition and appends them in steps.
type appender struct {
	server     *server
	topic      string
	partitions int32
	pending    map[int32][]log.Record
	records    int
	bytes      int
	lines      int
	done       int64
}

func (a *appender) readAll(ctx context.Context, body *bufio.Reader) error {
	for {
		line, err := readLine(body)
		if len(bytes.TrimSpace(line)) > 0 {
			if problem := a.add(line); problem != nil {
				return errors.Join(problem, a.flush(ctx))
			}
		}
		if errors.Is(err, io.EOF) {
			return a.flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		if body.Buffered() == 0 || a.records >= produceRecords || a.bytes >= produceBytes {
			if err := a.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// readLine returns the next line, which is valid until the next call. The last line may lack its end.
func readLine(body *bufio.Reader) ([]byte, error) {
	line, err := body.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if line, err = body.ReadSlice('\n'); len(long)+len(line) > maxLine {
			return nil, badRequest("a line is longer than %d bytes", maxLine)
		}
		long = append(long, line...)
	}
	return long, err
}

func (a *appender) add(line []byte) error {
	a.lines++
	r, err := parseRecord(line, a.lines)
	if err != nil {
		return err
	}
	partition := int32(0)
	switch {
	case r.Partition != nil:
		if partition = *r.Partition; partition < 0 || partition >= a.partitions {
			return badRequest("line %d: partition %d: topic %s has 0 to %d", a.lines, partition, a.topic, a.partitions-1)
		}
	case r.KeyBytes() != nil:
		partition = log.PartitionFor(r.KeyBytes(), a.partitions)
	default:
		partition = int32(a.server.turn.Add(1) % uint32(a.partitions))
	}
	a.pending[partition] = append(a.pending[partition], r.record())
	a.records++
	a.bytes += r.size()
	return nil
}

// flush appends what is pending, to all partitions at once, so that they share the wait for the disk.
func (a *appender) flush(ctx context.Context) error {
	var group errgroup.Group
	var done atomic.Int64
	for partition, records := range a.pending {
		if len(records) == 0 {
			continue
		}
		a.pending[partition] = records[:0]
		group.Go(func() error {
			if _, err := a.server.Journal.Append(ctx, log.TopicPartition{Topic: a.topic, Partition: partition}, records...); err != nil {
				return err
			}
			done.Add(int64(len(records)))
			return nil
		})
	}
	err := group.Wait()
	a.done += done.Load()
	a.records, a.bytes = 0, 0
	return err
}
