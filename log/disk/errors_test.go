package disk_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

// errorModel drives a log on a disk whose calls fail now and then, and knows what must be in it.
type errorModel struct {
	*rapid.T
	faults *vfs.Faults
	log    *disk.Log

	producer log.Producer
	open     []string
	mark     int

	next  int
	state map[string]string // present, absent, or maybe for an append that ended in an error
}

func (m *errorModel) start() {
	m.faults.SetRules()
	o := disk.Options{FS: m.faults, BatchBytes: 256, TransactionBytes: 512, FlushInterval: time.Hour, MaintenanceInterval: time.Hour}
	l, err := disk.Open("log", o.RollOwnTopicsAt(1000))
	if err != nil {
		m.Fatal(err)
	}
	m.log = l
}

// fault makes some calls fail that come soon.
func (m *errorModel) fault() {
	op := rapid.SampledFrom([]vfs.Op{vfs.OpSync, vfs.OpSync, vfs.OpWrite, vfs.OpTruncate, vfs.OpOpen, vfs.OpSyncDir, vfs.OpRename}).Draw(m.T, "op")
	rule := vfs.Rule{Op: op, Nth: rapid.IntRange(1, 8).Draw(m.T, "nth"), Times: rapid.IntRange(1, 4).Draw(m.T, "times"),
		Short: rapid.IntRange(0, 100).Draw(m.T, "short")}
	rules := []vfs.Rule{rule}
	if rapid.Bool().Draw(m.T, "and truncate") {
		rules = append(rules, vfs.Rule{Op: vfs.OpTruncate, Times: 2})
	}
	m.faults.SetRules(rules...)
}

func (m *errorModel) values(n int) (values []string, records []log.Record) {
	for range n {
		v := fmt.Sprintf("value %d %030d", m.next, m.next)
		m.next++
		values, records = append(values, v), append(records, log.Record{Value: []byte(v)})
	}
	return values, records
}

func (m *errorModel) set(values []string, state string) {
	for _, v := range values {
		m.state[v] = state
	}
}

// opened makes sure that the producer is open. Its mark tells whether the commit before happened.
func (m *errorModel) opened() bool {
	if m.producer != nil {
		return true
	}
	p, mark, err := m.log.Producer(context.Background(), "source")
	if err != nil {
		m.Logf("open producer: %v", err)
		return false
	}
	switch string(mark) {
	case markText(m.mark):
		m.set(m.open, "absent")
	case markText(m.mark + 1):
		m.set(m.open, "present")
		m.mark++
	default:
		m.Fatalf("the mark is %q, want %q or the next", mark, markText(m.mark))
	}
	m.open, m.producer = nil, p
	return true
}

func (m *errorModel) append() {
	values, records := m.values(rapid.IntRange(1, 8).Draw(m.T, "records"))
	m.open = append(m.open, values...)
	if err := m.producer.Append(context.Background(), orders(int32(len(values)%2)), records...); err != nil {
		m.producer = nil
	}
}

func (m *errorModel) commit() {
	if err := m.producer.Commit(context.Background(), []byte(markText(m.mark+1))); err != nil {
		m.producer = nil
		return
	}
	m.mark++
	m.set(m.open, "present")
	m.open = nil
}

func (m *errorModel) plain() {
	values, records := m.values(rapid.IntRange(1, 4).Draw(m.T, "records"))
	if _, err := m.log.Append(context.Background(), orders(int32(len(values)%2)), records...); err != nil {
		m.set(values, "maybe")
		return
	}
	m.set(values, "present")
}

func (m *errorModel) step() {
	switch rapid.SampledFrom([]string{"append", "append", "commit", "abort", "plain", "fault", "check", "reopen", "maintain"}).Draw(m.T, "step") {
	case "append":
		if m.opened() {
			m.append()
		}
	case "commit":
		if m.opened() {
			m.commit()
		}
	case "abort":
		if m.opened() {
			if err := m.producer.Abort(context.Background()); err != nil {
				m.producer = nil
				return
			}
			m.set(m.open, "absent")
			m.open = nil
		}
	case "plain":
		m.plain()
	case "fault":
		m.fault()
	case "check":
		m.check()
	case "reopen":
		_ = m.log.Close()
		m.producer = nil
		m.start()
	case "maintain":
		m.log.Maintain(time.Now())
	}
}

// check reads on a good disk.
func (m *errorModel) check() {
	m.faults.SetRules()
	m.producer = nil
	if !m.opened() {
		m.Fatal("the producer does not open on a good disk")
	}
	got := map[string]int{}
	for i := range int32(2) {
		for _, v := range m.read(orders(i)) {
			got[v]++
		}
	}
	for v, state := range m.state {
		if n := got[v]; n > 1 || n == 0 && state == "present" || n == 1 && state == "absent" {
			m.Fatalf("%q is there %d times and should be %s", v, n, state)
		}
	}
}

func (m *errorModel) read(tp log.TopicPartition) (values []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	topic, err := m.log.Topic(ctx, tp.Topic)
	if err != nil {
		m.Fatal(err)
	}
	c, err := m.log.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	if err != nil {
		m.Fatal(err)
	}
	for c.Assignment()[tp] < topic.Partitions[tp.Partition].LastStable {
		f, err := c.Poll(ctx, 10)
		if err != nil {
			m.Fatal(err)
		}
		for _, r := range f.Records {
			values = append(values, string(r.Value))
		}
	}
	if err := c.Close(ctx); err != nil {
		m.Fatal(err)
	}
	return values
}

func TestLogKeepsItsPromisesThroughDiskErrors(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &errorModel{T: rt, faults: vfs.NewFaults(vfs.NewMemory()), state: map[string]string{}}
		m.start()
		defer func() { _ = m.log.Close() }()
		if err := m.log.CreateTopic(context.Background(), "orders", log.TopicConfig{Partitions: 2, SegmentBytes: 1500}); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			m.step()
		}
		m.check()
		_ = m.log.Close()
		m.producer = nil
		m.start()
		m.check()
	})
}
