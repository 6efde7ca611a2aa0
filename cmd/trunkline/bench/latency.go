package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/postgres"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

const (
	latencyCommits = 1000
	latencyPause   = 5 * time.Millisecond // between commits, so that the source is idle at each
	latencyAim     = 10 * time.Millisecond
)

// latency times, for one-row transactions on an idle source, from the end of COMMIT to the record being read from the log.
func latency(ctx context.Context, w *world) error {
	if err := w.empty(ctx, "latency"); err != nil {
		return err
	}
	dir, err := w.newDir("latency")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := w.configure(dir, w.cdcSource("latency", "never"), "")
	if err != nil {
		return err
	}
	registry, err := connectors.NewRegistry(postgres.Connector())
	if err != nil {
		return err
	}
	cfg, err := config.Load(path, registry)
	if err != nil {
		return err
	}
	journal, err := disk.Open(filepath.Join(dir, "log"), disk.Options{Defaults: cfg.Log.Topics.TopicConfig()})
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer journal.Close()
	times, err := w.commitAndRead(ctx, journal, cfg.Sources[0].Open, dir)
	if err != nil {
		return err
	}
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[int(q*float64(len(times)-1))].Round(10 * time.Microsecond) }
	w.notes = append(w.notes, fmt.Sprintf("commit to readable in the log, idle source, %d commits: p50 %v, p90 %v, p99 %v, max %v (aim: p99 under %v)",
		len(times), at(0.5), at(0.9), at(0.99), at(1), latencyAim))
	return w.dropSlot(ctx, "latency")
}

// commitAndRead runs a source into the log and returns how long each commit took to be read.
func (w *world) commitAndRead(ctx context.Context, journal log.Log, open connectors.OpenSource, dir string) (times []time.Duration, err error) {
	g, err := ingest.New(ingest.Options{Source: "bench", Connector: "postgres", Open: open, Journal: journal, Schemas: codec.NewSchemas(journal), Dir: filepath.Join(dir, "spill")})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	reader, err := journal.Consumer(ctx, log.ConsumerOptions{Group: "latency", Topics: []string{"bench.*"}})
	if err != nil {
		return nil, err
	}
	defer reader.Close(context.WithoutCancel(ctx))
	arrived := make(chan time.Time, 1)
	go func() {
		for {
			fetch, err := reader.Poll(running, 100)
			if err != nil {
				return
			}
			if len(fetch.Records) > 0 {
				arrived <- time.Now()
			}
		}
	}()
	return times, w.commitEach(ctx, arrived, &times)
}

// commitEach commits one row after the other, each once the one before was read and a pause is over. The first few open
// what is opened lazily and are not counted.
func (w *world) commitEach(ctx context.Context, arrived <-chan time.Time, times *[]time.Duration) error {
	const warm = 20
	for i := range latencyCommits + warm {
		insert := fmt.Sprintf(fillOrders, fmt.Sprint(i+1), fmt.Sprint(i+1))
		if _, err := w.db.Exec(ctx, insert, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("commit a row: %w", err)
		}
		committed := time.Now()
		select {
		case at := <-arrived:
			if i >= warm {
				*times = append(*times, max(at.Sub(committed), 0))
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Second):
			return errors.New("a row that was committed is not in the log after 30 s")
		}
		time.Sleep(latencyPause)
	}
	return nil
}
