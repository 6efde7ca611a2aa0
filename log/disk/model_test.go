package disk_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

const modelPartitions, modelProducers = 2, 2

// model drives a log on a disk that loses power and knows what must be in it.
type model struct {
	*rapid.T
	disk *crashFS
	log  *disk.Log

	producers [modelProducers]log.Producer

	mu    sync.Mutex               // a picture may be taken by a goroutine of the log while the model goes on
	open  [modelProducers][]string // appended and not committed
	marks [modelProducers]int      // number of the last commit that was acknowledged

	offset, offsetFlight int64 // that the group committed; that it is committing, or -1

	next     int
	present  map[string]bool // acknowledged: must be there
	absent   map[string]bool // aborted: must not
	flight   []string        // of the call under way: all or none
	flightOf int             // the producer whose mark tells which; negative: none
	seen     map[log.TopicPartition]map[int64]string

	atCrash *picture
}

// picture is what was known when the power went.
type picture struct {
	present, absent map[string]bool
	flight          []string
	flightOf        int
	marks           [modelProducers]int
	undecided       []string
	seen            map[log.TopicPartition]map[int64]string

	offset, offsetFlight int64
}

func (m *model) options() disk.Options {
	o := disk.Options{FS: m.disk, BatchBytes: 256, TransactionBytes: 512, FlushInterval: time.Hour, MaintenanceInterval: time.Hour}
	return o.RollOwnTopicsAt(1000)
}

func (m *model) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *model) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *model) values(n int) (values []string, records []log.Record) {
	for range n {
		v := fmt.Sprintf("value %d %030d", m.next, m.next)
		m.next++
		values = append(values, v)
		records = append(records, log.Record{Key: []byte("k"), Value: []byte(v)})
	}
	return values, records
}

func (m *model) partition() log.TopicPartition {
	return log.TopicPartition{Topic: "orders", Partition: int32(rapid.IntRange(0, modelPartitions-1).Draw(m.T, "partition"))}
}

// start opens the log and what the workload needs.
func (m *model) start() {
	l, err := disk.Open("log", m.options())
	m.must(err)
	m.log = l
	err = l.CreateTopic(context.Background(), "orders", log.TopicConfig{Partitions: modelPartitions, SegmentBytes: 1500})
	if !errors.Is(err, log.ErrTopicExists) {
		m.must(err)
	}
}

// append makes sure that the producer is open, and appends.
func (m *model) append(i int) {
	m.openProducer(i)
	values, records := m.values(rapid.IntRange(1, 8).Draw(m.T, "records"))
	m.update(func() { m.open[i] = append(m.open[i], values...) })
	m.must(m.producers[i].Append(context.Background(), m.partition(), records...))
}

func (m *model) openProducer(i int) {
	if m.producers[i] != nil {
		return
	}
	m.drop(i)
	p, mark, err := m.log.Producer(context.Background(), fmt.Sprint("producer ", i))
	m.must(err)
	if got, want := string(mark), markText(m.marks[i]); got != want {
		m.Fatalf("the mark of producer %d is %q, want %q", i, got, want)
	}
	m.producers[i] = p
}

func markText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint("mark ", n)
}

func (m *model) commit(i int) {
	m.openProducer(i)
	m.update(func() { m.flight, m.flightOf = m.open[i], i })
	m.must(m.producers[i].Commit(context.Background(), []byte(markText(m.marks[i]+1))))
	m.update(func() {
		m.marks[i]++
		m.open[i] = nil
		m.acknowledge()
	})
}

func (m *model) acknowledge() {
	for _, v := range m.flight {
		m.present[v] = true
	}
	m.flight, m.flightOf = nil, -1
}

func (m *model) drop(i int) {
	m.update(func() {
		for _, v := range m.open[i] {
			m.absent[v] = true
		}
		m.open[i] = nil
	})
}

func (m *model) abort(i int) {
	m.openProducer(i)
	m.must(m.producers[i].Abort(context.Background()))
	m.drop(i)
}

func (m *model) plain() {
	values, records := m.values(rapid.IntRange(1, 4).Draw(m.T, "records"))
	m.update(func() { m.flight, m.flightOf = values, -1 })
	_, err := m.log.Append(context.Background(), m.partition(), records...)
	m.must(err)
	m.update(m.acknowledge)
}

var groupPartition = log.TopicPartition{Topic: "orders", Partition: 0}

// commitOffset commits an offset that grows. It need not be one that the partition has.
func (m *model) commitOffset() {
	m.update(func() { m.offsetFlight = m.offset + 1 })
	m.must(m.log.SetOffsets(context.Background(), "group", log.Offsets{groupPartition: m.offset + 1}))
	m.update(func() { m.offset, m.offsetFlight = m.offsetFlight, -1 })
}

// checkOffset compares what the group committed; one that a crash met may be there or not.
func (m *model) checkOffset() {
	groups, err := m.log.Groups(context.Background())
	m.must(err)
	got := int64(0)
	for _, g := range groups {
		got = g.Offsets[groupPartition]
	}
	if got != m.offset && got != m.offsetFlight {
		m.Fatalf("the group's offset is %d, want %d", got, m.offset)
	}
	m.offset, m.offsetFlight = got, -1
}

func (m *model) reopen() {
	m.must(m.log.Close())
	m.forgetProducers()
	m.start()
	m.check()
}

func (m *model) forgetProducers() {
	for i := range m.producers {
		m.producers[i] = nil
		m.drop(i)
	}
}

// step does one thing.
func (m *model) step() {
	i := rapid.IntRange(0, modelProducers-1).Draw(m.T, "producer")
	switch rapid.SampledFrom([]string{"append", "append", "append", "commit", "commit", "abort", "plain", "fence", "check", "reopen", "offsets", "maintain"}).Draw(m.T, "step") {
	case "append":
		m.append(i)
	case "commit":
		m.commit(i)
	case "abort":
		m.abort(i)
	case "plain":
		m.plain()
	case "fence":
		m.producers[i] = nil
		m.openProducer(i)
	case "check":
		m.check()
	case "reopen":
		m.reopen()
	case "offsets":
		m.commitOffset()
	case "maintain":
		m.log.Maintain(time.Now())
	}
}

// snapshot remembers what is known at the moment of the crash. It runs inside a call of the disk.
func (m *model) snapshot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &picture{present: maps.Clone(m.present), absent: maps.Clone(m.absent), flight: m.flight, flightOf: m.flightOf, marks: m.marks,
		offset: m.offset, offsetFlight: m.offsetFlight}
	for i, open := range m.open {
		if i != m.flightOf {
			p.undecided = append(p.undecided, open...)
		}
	}
	p.seen = map[log.TopicPartition]map[int64]string{}
	for tp, known := range m.seen {
		p.seen[tp] = maps.Clone(known)
	}
	m.atCrash = p
}

// crash goes back to the picture that was taken, if there is one.
func (m *model) crash() bool {
	disk := m.disk.disarm()
	m.must(m.log.Close())
	if disk == nil {
		m.forgetProducers()
		m.start()
		return false
	}
	p := m.atCrash
	m.disk = newCrashFS(disk)
	m.producers, m.open = [modelProducers]log.Producer{}, [modelProducers][]string{}
	m.present, m.absent, m.marks, m.seen = p.present, p.absent, p.marks, p.seen
	m.offset, m.offsetFlight = p.offset, p.offsetFlight
	for _, v := range p.undecided {
		m.absent[v] = true
	}
	if rapid.Bool().Draw(m.T, "crash in recovery") {
		m.recoverTwice()
	}
	m.start()
	m.resolve(p)
	m.checkOffset()
	m.check()
	return true
}

// recoverTwice lets the power go again while the log recovers.
func (m *model) recoverTwice() {
	m.disk.arm(rapid.IntRange(0, 40).Draw(m.T, "calls of recovery"), rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(m.T, "keep"), 3, func() {})
	l, err := disk.Open("log", m.options())
	m.must(err)
	second := m.disk.disarm()
	m.must(l.Close())
	if second != nil {
		m.disk = newCrashFS(second)
	}
}

// resolve finds out whether the call that the crash met happened. It has to be all of it or nothing, and the mark has to
// say the same.
func (m *model) resolve(p *picture) {
	got := m.contents()
	n := 0
	for _, v := range p.flight {
		n += got[v]
	}
	if n != 0 && n != len(p.flight) {
		m.Fatalf("%d of %d records of the call under way are there", n, len(p.flight))
	}
	if i := p.flightOf; i >= 0 {
		_, mark, err := m.log.Producer(context.Background(), fmt.Sprint("producer ", i))
		m.must(err)
		switch string(mark) {
		case markText(m.marks[i] + 1):
			if n != len(p.flight) {
				m.Fatalf("the mark is there, the records are not")
			}
			m.marks[i]++
		case markText(m.marks[i]):
			if n != 0 {
				m.Fatalf("the records are there, the mark is not")
			}
		default:
			m.Fatalf("the mark is %q after a crash, want %d or one more", mark, m.marks[i])
		}
	}
	for _, v := range p.flight {
		if n > 0 {
			m.present[v] = true
		} else {
			m.absent[v] = true
		}
	}
	m.flight, m.flightOf = nil, -1
}

// contents reads all that committed readers see, and compares each offset with what it meant before.
func (m *model) contents() map[string]int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got := map[string]int{}
	topic, err := m.log.Topic(ctx, "orders")
	m.must(err)
	for i, p := range topic.Partitions {
		tp := log.TopicPartition{Topic: "orders", Partition: int32(i)}
		c, err := m.log.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
		m.must(err)
		for c.Assignment()[tp] < p.LastStable {
			f, err := c.Poll(ctx, 3)
			m.must(err)
			for _, r := range f.Records {
				got[string(r.Value)]++
				m.update(func() { m.see(tp, r) })
			}
		}
		m.must(c.Close(ctx))
	}
	return got
}

// see remembers what an offset means, and fails if it meant something else before.
func (m *model) see(tp log.TopicPartition, r log.Record) {
	if was, ok := m.seen[tp][r.Offset]; ok && was != string(r.Value) {
		m.Fatalf("%s-%d offset %d was %q and is %q", tp.Topic, tp.Partition, r.Offset, was, r.Value)
	}
	if m.seen[tp] == nil {
		m.seen[tp] = map[int64]string{}
	}
	m.seen[tp][r.Offset] = string(r.Value)
}

// check compares the log with the model.
func (m *model) check() {
	got := m.contents()
	for v := range m.present {
		switch {
		case m.undecided(v):
		case got[v] != 1:
			m.Fatalf("%q is there %d times", v, got[v])
		}
		delete(got, v)
	}
	for v := range got {
		m.Fatalf("%q is there and was aborted or never committed (aborted: %v)", v, m.absent[v])
	}
}

// undecided reports whether a record may be held back by a transaction that is open.
func (m *model) undecided(string) bool {
	for i := range m.open {
		if len(m.open[i]) > 0 {
			return true
		}
	}
	return false
}

func TestLogKeepsItsPromisesThroughCrashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{T: rt, disk: newCrashFS(vfs.NewMemory()), present: map[string]bool{}, absent: map[string]bool{}, flightOf: -1, offsetFlight: -1,
			seen: map[log.TopicPartition]map[int64]string{}}
		m.start()
		defer func() {
			if m.log != nil {
				_ = m.log.Close()
			}
		}()
		for range rapid.IntRange(1, 4).Draw(rt, "crashes") {
			m.disk.arm(rapid.IntRange(0, 150).Draw(rt, "calls"), rapid.SampledFrom([]float64{0, 0.3, 0.7, 1}).Draw(rt, "keep"),
				rapid.Uint64().Draw(rt, "seed"), m.snapshot)
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				m.step()
			}
			m.crash()
		}
		for i := range m.producers {
			m.producers[i] = nil
			m.drop(i)
			m.openProducer(i)
		}
		m.check()
	})
}
