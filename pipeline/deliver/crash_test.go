package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/deliver"
	"github.com/trunkline/trunkline/pipeline/ingest"
	"github.com/trunkline/trunkline/pipeline/registry"
	"github.com/trunkline/trunkline/pipeline/transform"
)

var errInjected = errors.New("injected failure")

// dice decides at each step whether it fails.
type dice struct {
	mu   sync.Mutex
	rng  *rand.Rand
	odds float64
}

func (d *dice) fails() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64() < d.odds
}

// around calls do between two places where it may fail: before, so that nothing has happened, and after, so that it has
// and only the answer is lost.
func (d *dice) around(do func() error) error {
	if d.fails() {
		return errInjected
	}
	if err := do(); err != nil {
		return err
	}
	if d.fails() {
		return errInjected
	}
	return nil
}

// brittle is a log each of whose writing steps may fail.
type brittle struct {
	log.Log
	dice *dice
}

func (b brittle) Append(ctx context.Context, tp log.TopicPartition, records ...log.Record) (first int64, err error) {
	err = b.dice.around(func() error { first, err = b.Log.Append(ctx, tp, records...); return err })
	return first, err
}

func (b brittle) Producer(ctx context.Context, id string) (log.Producer, []byte, error) {
	p, mark, err := b.Log.Producer(ctx, id)
	return brittleProducer{p, b.dice}, mark, err
}

func (b brittle) Consumer(ctx context.Context, o log.ConsumerOptions) (log.Consumer, error) {
	c, err := b.Log.Consumer(ctx, o)
	return brittleConsumer{c, b.dice}, err
}

type brittleProducer struct {
	log.Producer
	dice *dice
}

func (p brittleProducer) Append(ctx context.Context, tp log.TopicPartition, records ...log.Record) error {
	return p.dice.around(func() error { return p.Producer.Append(ctx, tp, records...) })
}

func (p brittleProducer) Commit(ctx context.Context, mark []byte) error {
	return p.dice.around(func() error { return p.Producer.Commit(ctx, mark) })
}

type brittleConsumer struct {
	log.Consumer
	dice *dice
}

func (c brittleConsumer) Poll(ctx context.Context, n int) (log.Fetch, error) {
	if c.dice.fails() {
		return log.Fetch{}, errInjected
	}
	return c.Consumer.Poll(ctx, n)
}

func (c brittleConsumer) Commit(ctx context.Context, next log.Offsets) error {
	return c.dice.around(func() error { return c.Consumer.Commit(ctx, next) })
}

// brittleSource is a source whose steps may fail.
type brittleSource struct {
	connectors.Source
	dice *dice
}

func (s brittleSource) Read(ctx context.Context) (connectors.Batch, error) {
	if s.dice.fails() {
		return connectors.Batch{}, errInjected
	}
	return s.Source.Read(ctx)
}

func (s brittleSource) Ack(ctx context.Context, p connectors.Position) error {
	return s.dice.around(func() error { return s.Source.Ack(ctx, p) })
}

// brittleSink is a sink whose Write may fail before or after it took effect; it keeps the optional methods of the store.
type brittleSink struct {
	connectors.Migrator
	dice *dice
}

func (s brittleSink) Write(ctx context.Context, b connectors.Batch) error {
	return s.dice.around(func() error { return s.Migrator.Write(ctx, b) })
}

func (s brittleSink) Migrate(ctx context.Context, m connectors.Migration) error {
	return s.dice.around(func() error { return s.Migrator.Migrate(ctx, m) })
}

type brittleKeeper struct {
	brittleSink
	keeper connectors.Transactional
}

func (s brittleKeeper) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	return s.keeper.Committed(ctx, stream)
}

// history is a random life of a table and the state it ends in. Changes of the key may lack the other column, which only a
// sink that keeps positions can complete.
func history(rng *rand.Rand, lacking bool) (transactions [][]connectors.Change, want map[string]string) {
	want = map[string]string{}
	live := map[int]bool{}
	pick := func() int {
		if len(live) == 0 {
			return -1
		}
		ids := slices.Sorted(maps.Keys(live))
		return ids[rng.IntN(len(ids))]
	}
	var tx []connectors.Change
	next := 0
	put := func(id int) string {
		v := fmt.Sprint("v", next)
		live[id], want[fmt.Sprint(id)] = true, v
		return v
	}
	drop := func(id int) {
		delete(live, id)
		delete(want, fmt.Sprint(id))
	}
	for range 60 + rng.IntN(60) {
		next++
		id := rng.IntN(30)
		old := pick()
		switch n := rng.IntN(20); {
		case n == 0:
			tx = append(tx, truncate())
			clear(live)
			clear(want)
		case n < 4 && old >= 0:
			drop(old)
			tx = append(tx, remove(old))
		case n < 8 && old >= 0 && !live[id] && lacking && rng.IntN(3) > 0:
			v := want[fmt.Sprint(old)]
			drop(old)
			live[id], want[fmt.Sprint(id)] = true, v
			tx = append(tx, lackingRekey(old, id))
		case n < 8 && old >= 0 && !live[id]:
			drop(old)
			tx = append(tx, rekey(old, id, put(id)))
		case live[id]:
			tx = append(tx, connectors.Change{Op: connectors.Update, Table: items, After: row(id, put(id))})
		default:
			tx = append(tx, insert(id, put(id)))
		}
		if rng.IntN(4) == 0 {
			transactions, tx = append(transactions, tx), nil
		}
	}
	return append(transactions, tx), want
}

// crashes carries a history through a line where every step may fail and the power may go between attempts.
type crashes struct {
	t     *testing.T
	rng   *rand.Rand
	dice  *dice
	plain bool
	// enter and leave are transforms before the log and behind it.
	enter, leave []transform.Step
	encoding     codec.Encoding

	fs    *vfs.Memory
	log   *disk.Log
	feed  *memory.Feed
	store *memory.Store
	left  [][]connectors.Change
}

func (c *crashes) open() {
	l, err := disk.Open("log", disk.Options{FS: c.fs})
	if err != nil {
		c.t.Fatal(err)
	}
	c.log = l
}

// restart cuts the power in one of two cases, and ends the process cleanly in the other.
func (c *crashes) restart() {
	old := c.log
	if c.rng.IntN(2) == 0 {
		c.fs = c.fs.Crash(c.rng.Float64(), c.rng)
	}
	if err := old.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.open()
}

// feedSome lets the source have a few more transactions.
func (c *crashes) feedSome() {
	n := min(len(c.left), 1+c.rng.IntN(10))
	for _, tx := range c.left[:n] {
		c.feed.Append(tx...)
	}
	c.left = c.left[n:]
}

func (c *crashes) ingest(l log.Log, schemas *codec.Schemas) error {
	o := ingest.Options{
		Source: "shop", Connector: "memory", Journal: l, Schemas: schemas, Once: true, Topics: log.TopicConfig{Partitions: 3},
		Open: func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
			s, err := c.feed.Open(ctx, env, from)
			return brittleSource{s, c.dice}, err
		},
	}
	o.Limits.BatchRows = 1 + c.rng.IntN(5)
	o.Transform = c.hook(c.enter, true)
	schemasOfTopics := registry.New(l)
	o.Encoding = func(string) codec.Encoding { return c.encoding }
	o.Register = func(ctx context.Context, subject string, s codec.RegistrySchema) (int32, error) {
		return schemasOfTopics.Register(ctx, subject, registry.Schema{Type: s.Type, Text: s.Text})
	}
	g, err := ingest.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	err = g.Run(c.t.Context())
	if closing := schemasOfTopics.Close(c.t.Context()); closing != nil {
		c.t.Fatal(closing)
	}
	return err
}

func (c *crashes) deliver(l log.Log, schemas *codec.Schemas) error {
	s := &line{t: c.t}
	ends := s.ends(c.log)
	o := deliver.Options{
		Sink: "target", Topics: []string{"shop.*"}, Journal: l, Schemas: schemas, Until: func() log.Offsets { return ends },
		Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
			if c.plain {
				sink, err := c.store.OpenPlain(ctx, env)
				return brittleSink{sink.(connectors.Migrator), c.dice}, err
			}
			sink, err := c.store.Open(ctx, env)
			return brittleKeeper{brittleSink{sink.(connectors.Migrator), c.dice}, sink.(connectors.Transactional)}, err
		},
	}
	o.Batch.Rows = 1 + c.rng.IntN(8)
	o.Transform = c.hook(c.leave, false)
	d, err := deliver.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	return d.Run(c.t.Context())
}

// hook makes a chain; nil without steps.
func (c *crashes) hook(steps []transform.Step, source bool) func(context.Context, []connectors.Change) ([]connectors.Change, error) {
	if steps == nil {
		return nil
	}
	chain, err := transform.New(steps, transform.Options{Source: source})
	if err != nil {
		c.t.Fatal(err)
	}
	return chain.Apply
}

// run makes attempts until one of each succeeds with nothing left to feed.
func (c *crashes) run() {
	c.open()
	defer func() {
		if err := c.log.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	for attempt := 0; ; attempt++ {
		if attempt > 300 {
			c.dice.odds = 0 // bad luck must not go on for ever
		}
		c.feedSome()
		l := brittle{c.log, c.dice}
		schemas := codec.NewSchemas(l)
		first, second := c.ingest(l, schemas), c.deliver(l, schemas)
		if err := schemas.Close(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		for _, err := range []error{first, second} {
			if err != nil && !errors.Is(err, errInjected) {
				c.t.Fatal(err)
			}
		}
		if first == nil && second == nil && len(c.left) == 0 {
			return
		}
		c.restart()
	}
}

func TestNoCrashLosesOrRepeatsAChange(t *testing.T) {
	t.Parallel()
	seeds := uint64(120)
	if testing.Short() {
		seeds = 20
	}
	for name, plain := range map[string]bool{"transactional": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				c := crashes{t: t, encoding: codec.EncodingJSON, rng: rand.New(rand.NewPCG(seed, 0)), plain: plain, fs: vfs.NewMemory(), feed: memory.NewFeed(), store: memory.NewStore()}
				c.dice = &dice{rng: rand.New(rand.NewPCG(seed, 1)), odds: 0.002 + 0.03*c.rng.Float64()}
				var want map[string]string
				c.left, want = history(c.rng, !plain)
				c.run()
				if got := rowsOf(c.store); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("seed %d: target holds %v, want %v", seed, got, want)
				}
				if !plain {
					checkOnce(t, seed, c.store)
				}
			}
		})
	}
}

// A filter keeps a part of the rows, which updates enter and leave; the records are in each encoding.
func TestNoCrashLosesOrRepeatsAChangeThatIsTransformed(t *testing.T) {
	t.Parallel()
	type file struct {
		Enter []transform.Step `yaml:"enter"`
		Leave []transform.Step `yaml:"leave"`
	}
	var steps file
	err := config.Decode("steps.yaml", []byte(`
enter:
  - set: {tables: ["*"], columns: {v: "v + '?'", more: "id * 2"}}
  - filter: {tables: ["*"], when: "not (v endsWith '3?')"}
leave:
  - mask: {columns: [more], with: redact}
  - filter: "not (v endsWith '7?')"
  - set: {columns: {v: "v + '!'"}}
`), &steps)
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(12)
	if testing.Short() {
		seeds = 6
	}
	for name, plain := range map[string]bool{"transactional": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				c := crashes{t: t, rng: rand.New(rand.NewPCG(seed, 2)), encoding: []codec.Encoding{codec.EncodingJSON, codec.EncodingAvro, codec.EncodingProtobuf}[seed%3], plain: plain, fs: vfs.NewMemory(), feed: memory.NewFeed(), store: memory.NewStore(),
					enter: steps.Enter, leave: steps.Leave}
				c.dice = &dice{rng: rand.New(rand.NewPCG(seed, 3)), odds: 0.002 + 0.03*c.rng.Float64()}
				left, all := history(c.rng, false)
				c.left = left
				want := map[string]string{}
				for id, v := range all {
					if !strings.HasSuffix(v, "3") && !strings.HasSuffix(v, "7") {
						want[id] = v + "?!"
					}
				}
				c.run()
				if got := rowsOf(c.store); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("seed %d: target holds %v, want %v", seed, got, want)
				}
				if !plain {
					checkOnce(t, seed, c.store)
				}
			}
		})
	}
}

// checkOnce looks for a change that took effect twice.
func checkOnce(t *testing.T, seed uint64, store *memory.Store) {
	t.Helper()
	type at struct {
		stream string
		offset int64
	}
	seen := map[at]bool{}
	for _, a := range store.Log() {
		k := at{a.Stream, a.Offset}
		if seen[k] {
			t.Fatalf("seed %d: the change at %v took effect twice", seed, k)
		}
		seen[k] = true
	}
}
