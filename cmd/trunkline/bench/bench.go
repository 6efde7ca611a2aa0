// Package bench measures Trunkline against its peers and against what the database can hand out, on this machine, in one
// run. It promises ratios between commands that did the same work on the same data one after the other, the median of
// several rounds; absolute rates belong to the machine. Ours is always the whole program, started as a user starts
// it. Main calls it; docs/performance.md says how to read the figures.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// Options say what to measure.
type Options struct {
	Names  []string  // of Names; all: everything
	Rows   int       // rows of the table; default 1,000,000
	Rounds int       // each command is timed this often, in turn with its peer; default 3
	Out    io.Writer // the table goes here, progress too
	Dir    string    // where the server and the logs live; default: a temporary folder, removed at the end
	Self   string    // the program to measure; default: this one
	Codec  string    // compression of the log's topics; default: the log's default

	Markdown bool // the report is a table of Markdown
}

// benchmark is one thing that can be measured. It reports through the world's results.
type benchmark struct {
	name string
	does string
	run  func(ctx context.Context, w *world) error
	part bool // of another one, which runs it too
}

func benchmarks() []benchmark {
	list := []benchmark{
		{name: "capture", does: "every way from a database into the durable log: slot, binlog and extract", run: capture},
		{name: "slot", does: "a replication slot of PostgreSQL, beside pg_recvlogical to nothing", run: slot, part: true},
		{name: "binlog", does: "the binary log of MariaDB, beside go-mysql's parser to nothing", run: binlog, part: true},
		{name: "extract", does: "a table of PostgreSQL, MariaDB and SQLite by its cursor, all of it and what has changed, beside the plain driver's SELECT", run: extract, part: true},
		{name: "big", does: "a slot with one transaction that holds all the rows", run: slotBig},
		{name: "snapshot", does: "read a table into the log, beside psql's COPY to nothing", run: snapshot},
		{name: "deliver", does: "the log into a keyed table, beside a temporary table with INSERT … ON CONFLICT; and append beside COPY", run: deliver},
		{name: "line", does: "slot to keyed table, end to end, beside both of its ends alone", run: line},
		{name: "latency", does: "commit in the database to readable in the log, on an idle source", run: latency},
		{name: "sinks", does: "the log into every store that is on this machine, beside the store's own way for many rows", run: sinks},
	}
	return append(list, sinkBenchmarks()...)
}

// Names returns what can be measured, with a line about each.
func Names() [][2]string {
	var names [][2]string
	for _, b := range benchmarks() {
		names = append(names, [2]string{b.name, b.does})
	}
	return names
}

// result is one line of the report.
type result struct {
	what   string
	ours   []sample
	peer   string
	theirs []sample
	aim    string
}

// sample is one timed run.
type sample struct {
	rows int
	wall time.Duration
	cpu  time.Duration // of our process; zero: not measured
	rss  int64         // peak resident bytes; zero: not measured
}

func (s sample) rate() float64 { return float64(s.rows) / s.wall.Seconds() }

// world is what the benchmarks share: a private server with the data, and the report.
type world struct {
	Options
	server  *localserver.Server
	db      *pgx.Conn
	maria   *maria // nil: not started
	results []result
	notes   []string // what is no ratio
	slots   int
}

// Run measures and prints. Ratios are of medians, and each pair ran in turn.
func Run(ctx context.Context, o Options) error {
	chosen, err := choose(o.Names)
	if err != nil {
		return err
	}
	w, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	for _, b := range chosen {
		fmt.Fprintf(w.Out, "%s: %s\n", b.name, b.does)
		if err := b.run(ctx, w); err != nil {
			return fmt.Errorf("measure %s: %w", b.name, err)
		}
	}
	w.print()
	return nil
}

func choose(names []string) ([]benchmark, error) {
	all := benchmarks()
	if len(names) == 0 || slices.Contains(names, "all") {
		return slices.DeleteFunc(all, func(b benchmark) bool { return b.part }), nil
	}
	var chosen []benchmark
	list := ""
	for _, b := range all {
		list += " " + b.name
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no benchmark %q; there are: all%s", name, list)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if w.db != nil {
		w.db.Close(ctx)
	}
	if w.server != nil {
		if err := w.server.Stop(); err != nil {
			fmt.Fprintln(w.Out, "stop the private server:", err)
		}
	}
	if err := w.maria.close(); err != nil {
		fmt.Fprintln(w.Out, "stop the private server:", err)
	}
	os.RemoveAll(w.Dir)
}

func (w *world) report(r result) { w.results = append(w.results, r) }

func (w *world) print() {
	defer func() {
		for _, n := range w.notes {
			fmt.Fprintln(w.Out, n)
		}
	}()
	fmt.Fprintln(w.Out)
	if len(w.results) == 0 {
		return
	}
	if w.Markdown {
		w.printMarkdown()
		return
	}
	t := tabwriter.NewWriter(w.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "measured\tours rows/s\tbest\tCPU µs/row\tpeak MB\tpeer\tpeer rows/s\tbest\tratio\taim\t")
	for _, r := range w.results {
		o, p := median(r.ours), median(r.theirs)
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%s\t%s\t%s\t%.0f\t%.0f\t%.2f\t%s\t\n", r.what, o.rate(), best(r.ours).rate(),
			perRow(o), megabytes(r.ours), r.peer, p.rate(), best(r.theirs).rate(), o.rate()/p.rate(), r.aim)
	}
	t.Flush()
}

// printMarkdown prints the report as docs/performance.md has it.
func (w *world) printMarkdown() {
	fmt.Fprintln(w.Out, "| measured | rows/s | CPU µs/row | memory | beside | rows/s | ratio |\n|---|---|---|---|---|---|---|")
	for _, r := range w.results {
		o, p := median(r.ours), median(r.theirs)
		fmt.Fprintf(w.Out, "| %s | %s | %s | %s MB | %s | %s | **%.2f** |\n", r.what, thousands(o.rate()), perRow(o), megabytes(r.ours), r.peer, thousands(p.rate()), o.rate()/p.rate())
	}
}

// thousands writes a rate as people read it: 123,000, and 1,234 where it is small.
func thousands(rate float64) string {
	n := int(rate + 0.5)
	if n >= 10_000 {
		n = (n + 500) / 1000 * 1000
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func perRow(s sample) string {
	if s.cpu == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", s.cpu.Seconds()*1e6/float64(s.rows))
}

func megabytes(list []sample) string {
	most := int64(0)
	for _, s := range list {
		most = max(most, s.rss)
	}
	if most == 0 {
		return "–"
	}
	return fmt.Sprintf("%d", most>>20)
}

func median(list []sample) sample {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b sample) int { return int(a.wall - b.wall) })
	return sorted[len(sorted)/2]
}

func best(list []sample) sample {
	return slices.MinFunc(list, func(a, b sample) int { return int(a.wall - b.wall) })
}

// pairs times ours and theirs in turn, as often as Rounds says.
func (w *world) pairs(r result, ours, theirs func() (sample, error)) error {
	for round := range w.Rounds {
		t, err := theirs()
		if err != nil {
			return fmt.Errorf("%s: %w", r.peer, err)
		}
		o, err := ours()
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		if o.rows == 0 || t.rows == 0 {
			return errors.New("a run moved no rows")
		}
		r.ours, r.theirs = append(r.ours, o), append(r.theirs, t)
		fmt.Fprintf(w.Out, "  round %d: %s %.0f rows/s, %s %.0f rows/s\n", round+1, r.what, o.rate(), r.peer, t.rate())
	}
	w.report(r)
	return nil
}
