// Package pipeline runs the sources and sinks of a configuration over one log.
//
// It promises that each source and each sink lives by itself: it is tried again with backoff, here and nowhere else, it
// is paused, resumed and resynced alone, and what befalls it shows in its own state with the reason in words. It knows
// no database and no wire format; packages ingest and deliver make the attempts that it supervises. Package api shows
// its status, and the run command calls New and Run.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/pause"
	"github.com/trunkline/trunkline/pipeline/registry"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// Errors that callers compare with errors.Is.
var (
	ErrUnknown     = errors.New("no such name")
	ErrNotRunning  = errors.New("not running here")
	ErrUnsupported = errors.New("not supported")
)

// Options says how a pipeline runs. The zero value of a field takes the default in its comment.
type Options struct {
	Logger       *slog.Logger       // silent
	Only         []string           // names of sources and sinks to run; none: all
	Once         bool               // read every source to its present end, let the sinks catch up, and end
	Backoff      connectors.Backoff // between attempts
	DrainTimeout time.Duration      // how long Run waits for what it stopped; 30 s
	Version      string             // of the program, for the source block of records
	Tracer       *trace.Tracer      // of batches; nil: nothing is traced
	SpillDir     string             // where connectors may keep files while they run; a folder beside the log
}

// Pipeline is the sources and sinks of one configuration. All methods may be called at the same time.
type Pipeline struct {
	journal  log.Log
	schemas  *codec.Schemas
	registry *registry.Registry
	pauses   *pause.Book
	o        Options
	drained  chan struct{} // closed when every source of a run with an end has ended
	running  atomic.Bool
	draining atomic.Bool
	started  atomic.Pointer[time.Time]
	present  atomic.Pointer[roster]
	past     history

	reload sync.Mutex    // held while the roster is replaced
	hire   func(*member) // lets a member begin; nil while Run is not at work
}

// New prepares a pipeline. It connects to nothing.
func New(c config.Config, journal log.Log, o Options) (*Pipeline, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 30 * time.Second
	}
	if o.SpillDir == "" {
		o.SpillDir = filepath.Join(filepath.Dir(filepath.Clean(c.Log.Dir)), "spill")
	}
	o.Backoff = o.Backoff.WithDefaults()
	p := &Pipeline{journal: journal, o: o, schemas: codec.NewSchemas(journal), registry: registry.New(journal), pauses: pause.New(journal), drained: make(chan struct{})}
	r, err := p.newRoster(c, &roster{})
	if err != nil {
		return nil, err
	}
	p.present.Store(r)
	return p, nil
}

// Config returns the configuration.
func (p *Pipeline) Config() config.Config { return p.roster().config }

// Schemas returns the registry of schema versions.
func (p *Pipeline) Schemas() *codec.Schemas { return p.schemas }

// Dir returns the absolute path of the log, or its brokers, by which a command knows that it talks to the right daemon.
func (p *Pipeline) Dir() string {
	if len(p.roster().config.Log.Brokers) > 0 {
		return p.roster().config.Log.Address()
	}
	dir, err := filepath.Abs(p.roster().config.Log.Dir)
	if err != nil {
		return p.roster().config.Log.Dir
	}
	return dir
}

// Running reports whether Run is at work.
func (p *Pipeline) Running() bool { return p.running.Load() }

// Run supervises everything until ctx ends and all has drained, or, in a run with an end, until that is reached. It is
// called once. The error names what could not be finished; it wraps connectors.ErrPositionLost if that is because a
// source's position is lost.
func (p *Pipeline) Run(ctx context.Context) error {
	for _, m := range p.members() {
		if err := os.MkdirAll(filepath.Join(p.o.SpillDir, m.name), 0o750); err != nil {
			return fmt.Errorf("make folder for spill files: %w", err)
		}
	}
	if _, err := p.pauses.CatchUp(ctx); err != nil {
		return err
	}
	defer p.running.Store(false)
	var work, sampling sync.WaitGroup
	sampleCtx, stopSampling := context.WithCancel(context.WithoutCancel(ctx))
	sampling.Go(func() { p.sample(sampleCtx) })
	defer func() {
		stopSampling()
		sampling.Wait()
	}()
	leave, err := p.start(ctx, &work)
	if err != nil {
		return err
	}
	defer leave()
	ended := make(chan struct{})
	go func() {
		work.Wait()
		close(ended)
	}()
	if err := p.wait(ctx, ended); err != nil {
		return err
	}
	return errors.Join(p.outcome(ctx), p.closeReaders(context.WithoutCancel(ctx)))
}

// closeReaders ends what was read beside the sources and sinks, once all of them have ended.
func (p *Pipeline) closeReaders(ctx context.Context) error {
	errs := []error{p.schemas.Close(ctx), p.registry.Close(ctx)}
	for _, m := range p.members() {
		errs = append(errs, m.close(ctx))
	}
	return errors.Join(errs...)
}

// start makes p one that runs. A new configuration that comes meanwhile waits until it does. The function that it
// returns gives the sources up to other processes.
func (p *Pipeline) start(ctx context.Context, work *sync.WaitGroup) (leave func(), err error) {
	p.reload.Lock()
	defer p.reload.Unlock()
	now := time.Now()
	p.started.Store(&now)
	p.running.Store(true)
	if leave, err = p.shareSources(ctx); err != nil {
		return nil, err
	}
	p.begin(ctx, work)
	return leave, nil
}

// begin lets all members begin, and later ones that a new configuration brings. It is called with p.reload held.
func (p *Pipeline) begin(ctx context.Context, work *sync.WaitGroup) {
	var reading sync.WaitGroup
	hire := func(m *member, done func()) {
		p.keepPaused(m)
		own, end := context.WithCancel(ctx)
		m.end, m.gone = end, make(chan struct{})
		work.Go(func() {
			defer done()
			defer close(m.gone)
			defer end()
			m.supervise(own)
		})
		if m.beside != nil {
			work.Go(func() { m.beside(own) })
		}
	}
	for _, m := range p.members() {
		done := func() {}
		if m.role == RoleSource {
			reading.Add(1)
			done = reading.Done
		}
		hire(m, done)
	}
	work.Go(func() {
		reading.Wait()
		close(p.drained)
	})
	if p.o.Once {
		return
	}
	p.hire = func(m *member) { hire(m, func() {}) }
	work.Go(func() { // a configuration can lose all of its members and get others
		<-ctx.Done()
		p.reload.Lock()
		defer p.reload.Unlock()
		p.hire = nil
	})
}

// wait returns when all has ended, or when it has not within the drain timeout after ctx did.
func (p *Pipeline) wait(ctx context.Context, ended <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	p.draining.Store(true)
	timer := time.NewTimer(p.o.DrainTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
	}
	var late []string
	for _, m := range p.members() {
		m.mu.Lock()
		if m.alive {
			late = append(late, m.name)
		}
		m.mu.Unlock()
	}
	return fmt.Errorf("drain: %s did not stop within %v; what was not finished is done again after the next start",
		strings.Join(late, ", "), p.o.DrainTimeout)
}

// outcome says what a run with an end left undone.
func (p *Pipeline) outcome(ctx context.Context) error {
	if !p.o.Once || ctx.Err() != nil {
		return nil
	}
	var errs []error
	for _, m := range p.members() {
		m.mu.Lock()
		switch m.state {
		case Gap:
			errs = append(errs, fmt.Errorf("%s %s: %w: %s", m.role, m.name, connectors.ErrPositionLost, m.reason))
		case Failed:
			errs = append(errs, fmt.Errorf("%s %s: %s", m.role, m.name, m.reason))
		case Paused:
			errs = append(errs, fmt.Errorf("%s %s is paused %s", m.role, m.name, m.reason))
		}
		m.mu.Unlock()
	}
	for _, s := range p.roster().sources {
		for _, t := range s.ingest.Status().Tables {
			if t.Phase == connectors.PhaseFailed {
				errs = append(errs, fmt.Errorf("source %s: table %s: %s", s.name, t.Table, p.roster().config.Secrets.Hide(t.Reason)))
			}
		}
	}
	return errors.Join(errs...)
}

func (p *Pipeline) members() []*member { return p.roster().members() }

// sample takes the readings behind all rates once a second.
func (p *Pipeline) sample(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var remembered time.Time
	for {
		now := time.Now()
		for _, s := range p.roster().sources {
			s.sample(now)
		}
		for _, s := range p.roster().sinks {
			s.sample(now)
		}
		if due := p.remember(ctx, now, remembered); due != remembered {
			remembered = due
			p.followPauses(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
