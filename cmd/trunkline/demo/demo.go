package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// Options say how to run the demo.
type Options struct {
	Out  io.Writer
	For  time.Duration // how long the shops are open; zero: until ctx ends
	Dir  string        // where everything lives, kept at the end; empty: a temporary folder that is removed
	HTTP string        // address of the status page; where it is taken, a free port on loopback
	Self string        // the program that runs the line; empty: this one
}

// world is all that the demo starts.
type world struct {
	Options
	shops  []shop
	server *localserver.Server // nil: no PostgreSQL on this machine
	daemon *daemon
	kills  int // of the line, with -9
	keep   bool
}

// Run opens the shops, runs the line between them and the stores, kills it in the middle and starts it again, closes the
// shops after a while, and compares. The error says what differs.
func Run(ctx context.Context, o Options) error {
	w, err := build(ctx, o)
	defer w.close()
	if err != nil {
		return err
	}
	w.introduce()
	if err := w.play(ctx); err != nil {
		w.keep = true // there is something to look at
		return fmt.Errorf("%w (everything is kept in %s)", err, w.Dir)
	}
	return nil
}

func (w *world) play(ctx context.Context) error {
	if err := w.daemon.start(); err != nil {
		return err
	}
	if err := w.trade(ctx); err != nil {
		return err
	}
	return w.settle(context.WithoutCancel(ctx))
}

// build makes the folder, the shops and the configuration. What it made is in w even after an error.
func build(ctx context.Context, o Options) (w *world, err error) {
	w = &world{Options: o, keep: o.Dir != ""}
	if err := w.makeDir(); err != nil {
		return w, err
	}
	for _, town := range []string{"berlin", "tokyo"} {
		s, err := newSQLiteShop(ctx, w.Dir, town)
		if err != nil {
			return w, err
		}
		w.shops = append(w.shops, s)
	}
	if err := w.addPostgres(ctx); err != nil {
		return w, err
	}
	if w.HTTP, err = freeAddress(w.HTTP); err != nil {
		return w, err
	}
	config, err := w.writeConfig()
	if err != nil {
		return w, err
	}
	w.daemon, err = newDaemon(w.Self, config, filepath.Join(w.Dir, "run.log"), w.HTTP)
	return w, err
}

func (w *world) makeDir() error {
	if w.keep {
		if entries, err := os.ReadDir(w.Dir); err == nil && len(entries) > 0 {
			return fmt.Errorf("the folder %s is not empty: choose another, or remove it", w.Dir)
		}
		if err := os.MkdirAll(w.Dir, 0o755); err != nil {
			return fmt.Errorf("create the demo's folder: %w", err)
		}
	} else {
		dir, err := os.MkdirTemp("", "trunkline-demo-")
		if err != nil {
			return fmt.Errorf("create the demo's folder: %w", err)
		}
		w.Dir = dir
	}
	dir, err := filepath.Abs(w.Dir)
	if err != nil {
		return fmt.Errorf("find the demo's folder: %w", err)
	}
	w.Dir = dir
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		return fmt.Errorf("open the demo's folder to the private server: %w", err)
	}
	return nil
}

// addPostgres starts a private server where the machine has the programs, and says so where it has not.
func (w *world) addPostgres(ctx context.Context) error {
	binaries, err := localserver.Find()
	if err != nil {
		fmt.Fprintln(w.Out, "PostgreSQL's programs are not on this machine, so two shops in SQLite have to do. (With PostgreSQL installed the demo adds one with logical replication.)")
		return nil
	}
	w.server, err = localserver.Start(ctx, localserver.Options{Dir: filepath.Join(w.Dir, "postgres"), Binaries: binaries})
	if err != nil {
		return fmt.Errorf("start a private PostgreSQL: %w", err)
	}
	dsn, err := w.server.CreateDatabase(ctx, "shop")
	if err != nil {
		return err
	}
	if _, err := w.server.CreateDatabase(ctx, "replica"); err != nil {
		return err
	}
	lima, err := newPostgresShop(ctx, dsn)
	if err != nil {
		return err
	}
	w.shops = append(w.shops, lima)
	return nil
}

// introduce says what runs where.
func (w *world) introduce() {
	fmt.Fprintf(w.Out, "\nTrunkline demo: %d databases, one log, %d stores, all on this machine.\n\n", len(w.shops), len(w.stores()))
	for _, s := range w.shops {
		fmt.Fprintf(w.Out, "  source  %-10s %s\n", s.name(), s.describe())
	}
	fmt.Fprintf(w.Out, "  log     %-10s %d partitions a topic, on disk before anyone reads it\n", "data", partitions)
	for _, s := range w.stores() {
		fmt.Fprintf(w.Out, "  sink    %-10s %s\n", s.name, s.what)
	}
	fmt.Fprintf(w.Out, "\n  configuration  %s\n  status page    http://%s\n\n", w.daemon.config, w.HTTP)
}

// trade keeps the shops open, and kills the line with -9 in the middle.
func (w *world) trade(ctx context.Context) error {
	open, closeShops := context.WithCancel(ctx)
	defer closeShops()
	var group errgroup.Group
	for _, s := range w.shops {
		group.Go(func() error { return s.work(open) })
	}
	err := w.watch(open)
	closeShops()
	if workErr := group.Wait(); err == nil {
		err = workErr
	}
	return err
}

// watch prints a status line a second until the time is over or the user has seen enough.
func (w *world) watch(ctx context.Context) error {
	started := time.Now()
	var end, kill <-chan time.Time
	if w.For > 0 {
		end, kill = time.After(w.For), time.After(w.For/2)
	} else {
		kill = time.After(15 * time.Second)
		fmt.Fprintln(w.Out, "Ctrl-C closes the shops and compares every row.")
	}
	fmt.Fprint(w.Out, statusHeader(w.stores()))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			return nil
		case <-kill:
			pid, err := w.daemon.killAndRestart()
			if err != nil {
				return err
			}
			w.kills++
			fmt.Fprintf(w.Out, "%s         kill -9 %d; started again\n", clock(time.Since(started)), pid)
		case <-tick.C:
			w.printStatus(ctx, time.Since(started))
		case err := <-w.daemon.ended:
			return fmt.Errorf("the line stopped by itself (%v): see %s", err, w.daemon.output)
		}
	}
}

// settle waits until every store has everything, and compares.
func (w *world) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	started := time.Now()
	fmt.Fprintf(w.Out, "\nThe shops are closed after %s changes. ", number(w.changes()))
	differences, err := w.compareUntilEqual(ctx)
	if err != nil {
		return err
	}
	if err := w.daemon.stop(); err != nil {
		return err
	}
	fmt.Fprintf(w.Out, "Every store had everything %.1f s later.\n\n", time.Since(started).Seconds())
	return w.summarize(differences)
}

func (w *world) changes() int64 {
	n := int64(0)
	for _, s := range w.shops {
		n += s.changes()
	}
	return n
}

func (w *world) close() {
	if w.daemon != nil {
		w.daemon.kill()
	}
	for _, s := range w.shops {
		s.close()
	}
	if w.server != nil {
		w.server.Stop()
	}
	if !w.keep && w.Dir != "" {
		os.RemoveAll(w.Dir)
	}
}
