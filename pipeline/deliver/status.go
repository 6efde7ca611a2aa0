package deliver

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/log"
)

// Status is what a delivery has done since it was made, over all attempts, and where it stands now.
type Status struct {
	Connected   bool          // the sink is open
	Opening     time.Time     // since when it has been opening; zero: it is not. A store that does not answer shows here
	Records     int64         // dealt with: durable in the sink, or dead letters, or of no meaning to a sink
	Bytes       int64         // of their keys and values
	DeadLetters int64         //
	Incomplete  int64         // rows that an update left parts of out, and that the log could not complete
	Lost        int64         // records that retention removed before they were read
	LastWrite   time.Time     // zero: none yet
	WriteTakes  time.Duration // how long the write in hand has taken so far; 0: none. A sink that hangs shows here
	LagRecords  int64         // over all partitions
	LagTime     time.Duration // age of the oldest record that is not dealt with; 0: none is
	Freshness   Freshness
	Partitions  []PartitionStatus
}

// PartitionStatus is the part of one partition. Offsets count everything that a partition holds, control records too.
type PartitionStatus struct {
	log.TopicPartition
	Next    int64 // the offset that comes next
	End     int64 // what can be read ends here
	Lag     int64 // End - Next
	LagTime time.Duration
}

// meter keeps the numbers.
type meter struct {
	connected                                 atomic.Bool
	records, bytes, letters, lost, incomplete atomic.Int64
	lastWrite, writeSince, openSince          atomic.Int64 // nanoseconds since 1970; 0: none

	fresh freshness

	mu         sync.Mutex
	partitions map[log.TopicPartition]*partitionMeter
}

// partitionMeter is written by the goroutine of Run and read by any.
type partitionMeter struct {
	mu      sync.Mutex
	next    int64
	end     int64
	oldest  int64     // milliseconds: stamp of the first record in hand; 0: nothing is in hand
	last    int64     // milliseconds: stamp of the last record that was dealt with
	level   bool      // it was at the end once
	noticed time.Time // when Status first saw a lag at this place
}

func (m *meter) assign(tp log.TopicPartition, next int64) *partitionMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &partitionMeter{next: next, end: next}
	m.partitions[tp] = p
	return p
}

func (m *meter) unassign(tp log.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.partitions, tp)
}

// disconnect keeps the partitions: their lag goes on growing while the sink is away.
func (m *meter) disconnect() { m.connected.Store(false) }

func (m *meter) writing(on bool) { mark(&m.writeSince, on) }
func (m *meter) opening(on bool) { mark(&m.openSince, on) }

// mark stores the time of now, or none.
func mark(since *atomic.Int64, on bool) {
	if on {
		since.Store(time.Now().UnixNano())
		return
	}
	since.Store(0)
}

// wrote counts records that were dealt with.
func (m *meter) wrote(p *partitionMeter, records []log.Record) {
	bytes := 0
	for i := range records {
		bytes += len(records[i].Key) + len(records[i].Value)
	}
	m.records.Add(int64(len(records)))
	m.bytes.Add(int64(bytes))
	m.lastWrite.Store(time.Now().UnixNano())
	if len(records) > 0 {
		p.mu.Lock()
		p.last = records[len(records)-1].Timestamp
		p.mu.Unlock()
	}
}

// seen notes what a poll told.
func (p *partitionMeter) seen(f log.Fetch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = max(p.end, f.HighWatermark)
	if len(f.Records) > 0 && (p.oldest == 0 || f.Records[0].Timestamp < p.oldest) {
		p.oldest = f.Records[0].Timestamp
	}
}

func (p *partitionMeter) advance(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.oldest, p.noticed = next, 0, time.Time{}
	p.end = max(p.end, next)
	p.level = p.level || next >= p.end
}

// status computes the lag. Where no record is in hand, its age is bounded: by when the lag was first noticed if the
// partition had been read to its end before, else by the last record that was read.
func (p *partitionMeter) status(tp log.TopicPartition, end int64, now time.Time) PartitionStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = max(p.end, end)
	s := PartitionStatus{TopicPartition: tp, Next: p.next, End: p.end, Lag: p.end - p.next}
	if s.Lag <= 0 {
		s.Lag, p.noticed = 0, time.Time{}
		return s
	}
	if p.noticed.IsZero() {
		p.noticed = now
	}
	since := p.noticed
	switch {
	case p.oldest > 0:
		since = time.UnixMilli(p.oldest)
	case !p.level && p.last > 0:
		since = time.UnixMilli(p.last)
	}
	s.LagTime = max(0, now.Sub(since))
	return s
}

// Status returns the numbers of now. It asks the log where the partitions end, so that a sink that hangs is seen to
// fall behind; where the log does not answer, the last known end stands.
func (d *Deliver) Status(ctx context.Context) Status {
	m := &d.meter
	now := time.Now()
	s := Status{
		Connected: m.connected.Load(), Records: m.records.Load(), Bytes: m.bytes.Load(),
		DeadLetters: m.letters.Load(), Lost: m.lost.Load(), Incomplete: m.incomplete.Load(),
		Freshness: m.fresh.status(),
	}
	if n := m.lastWrite.Load(); n != 0 {
		s.LastWrite = time.Unix(0, n).UTC()
	}
	if n := m.openSince.Load(); n != 0 {
		s.Opening = time.Unix(0, n).UTC()
	}
	if n := m.writeSince.Load(); n != 0 {
		s.WriteTakes = now.Sub(time.Unix(0, n))
	}
	m.mu.Lock()
	partitions := make(map[log.TopicPartition]*partitionMeter, len(m.partitions))
	for tp, p := range m.partitions {
		partitions[tp] = p
	}
	m.mu.Unlock()
	ends := d.ends(ctx, partitions)
	for tp, p := range partitions {
		row := p.status(tp, ends[tp], now)
		s.Partitions = append(s.Partitions, row)
		s.LagRecords += row.Lag
		if d.o.Paused == nil || !d.o.Paused(tp.Topic) {
			s.LagTime = max(s.LagTime, row.LagTime)
		}
	}
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return s
}

func (d *Deliver) ends(ctx context.Context, partitions map[log.TopicPartition]*partitionMeter) log.Offsets {
	ends := log.Offsets{}
	asked := map[string]bool{}
	for tp := range partitions {
		if asked[tp.Topic] {
			continue
		}
		asked[tp.Topic] = true
		topic, err := d.o.Journal.Topic(ctx, tp.Topic)
		if err != nil {
			continue
		}
		for i, p := range topic.Partitions {
			ends[log.TopicPartition{Topic: tp.Topic, Partition: int32(i)}] = p.LastStable
		}
	}
	return ends
}
