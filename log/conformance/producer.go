package conformance

import (
	"slices"
	"time"

	"github.com/trunkline/trunkline/log"
)

var producerCases = []testCase{
	{name: "a commit shows its appends and its mark at once", run: producerCommit},
	{name: "an abort leaves nothing", run: producerAbort},
	{name: "a mark alone is stored", reopens: true, run: producerMarkAlone},
	{name: "an open transaction holds back what follows it", run: producerHoldsBack},
	{name: "a newer producer fences the older", run: producerFenced},
	{name: "what was not committed is aborted by a reopen", reopens: true, run: producerReopened},
	{name: "a large transaction is invisible until its commit", run: producerLarge},
	{name: "a large aborted transaction is skipped", run: producerLargeAborted},
}

func producerCommit(s *suite) {
	name, id := s.topic("orders", 2), s.name("source")
	p, mark := s.producer(id)
	if mark != nil {
		s.Fatalf("mark of a new producer is %q, want none", mark)
	}
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{at(name, 0), at(name, 1)}})
	s.must(p.Append(s.ctx, at(name, 0), records("a", "b")...))
	s.must(p.Append(s.ctx, at(name, 1), records("c")...))
	s.nothing(c, 20*time.Millisecond)
	s.must(p.Commit(s.ctx, []byte("m1")))
	got := s.read(c, 3)
	if !slices.Equal(got[at(name, 0)], []string{"a", "b"}) || !slices.Equal(got[at(name, 1)], []string{"c"}) {
		s.Errorf("read %q", got)
	}
	s.must(c.Close(s.ctx))
	s.must(p.Close(s.ctx))
	_, mark = s.producer(id)
	if string(mark) != "m1" {
		s.Errorf("mark is %q, want m1", mark)
	}
}

func producerAbort(s *suite) {
	name, id := s.topic("orders", 1), s.name("source")
	p, _ := s.producer(id)
	s.must(p.Append(s.ctx, at(name, 0), records("a")...))
	s.must(p.Commit(s.ctx, []byte("m1")))
	s.must(p.Append(s.ctx, at(name, 0), records("dropped")...))
	s.must(p.Abort(s.ctx))
	s.must(p.Append(s.ctx, at(name, 0), records("b")...))
	s.must(p.Commit(s.ctx, []byte("m2")))
	s.must(p.Append(s.ctx, at(name, 0), records("left open")...))
	s.must(p.Close(s.ctx))
	if got := s.readAll(at(name, 0)); !slices.Equal(got, []string{"a", "b"}) {
		s.Errorf("read %q, want a and b", got)
	}
	if _, mark := s.producer(id); string(mark) != "m2" {
		s.Errorf("mark is %q, want m2", mark)
	}
}

func producerMarkAlone(s *suite) {
	id := s.name("source")
	p, _ := s.producer(id)
	for _, m := range []string{"m1", "m2", "m3"} {
		s.must(p.Commit(s.ctx, []byte(m)))
	}
	s.must(p.Close(s.ctx))
	s.reopen()
	if _, mark := s.producer(id); string(mark) != "m3" {
		s.Errorf("mark is %q, want m3", mark)
	}
}

func producerHoldsBack(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	slow, _ := s.producer(s.name("slow"))
	fast, _ := s.producer(s.name("fast"))
	s.must(slow.Append(s.ctx, tp, records("s")...))
	s.must(fast.Append(s.ctx, tp, records("f")...))
	s.must(fast.Commit(s.ctx, nil))
	s.append(tp, "plain")
	s.must(slow.Commit(s.ctx, nil))
	got := s.readAll(tp)
	slices.Sort(got)
	if !slices.Equal(got, []string{"f", "plain", "s"}) {
		s.Errorf("read %q, want each of the three once", got)
	}
}

func producerFenced(s *suite) {
	tp, id := at(s.topic("orders", 1), 0), s.name("source")
	old, _ := s.producer(id)
	s.must(old.Append(s.ctx, tp, records("a")...))
	s.must(old.Commit(s.ctx, []byte("m1")))
	s.must(old.Append(s.ctx, tp, records("zombie")...))
	fresh, mark := s.producer(id)
	if string(mark) != "m1" {
		s.Errorf("mark is %q, want m1", mark)
	}
	s.wantError(old.Commit(s.ctx, []byte("m2")), log.ErrFenced)
	s.must(fresh.Append(s.ctx, tp, records("b")...))
	s.must(fresh.Commit(s.ctx, []byte("m3")))
	_ = old.Close(s.ctx)
	if got := s.readAll(tp); !slices.Equal(got, []string{"a", "b"}) {
		s.Errorf("read %q, want a and b", got)
	}
}

func producerReopened(s *suite) {
	tp, id := at(s.topic("orders", 1), 0), s.name("source")
	p, _ := s.producer(id)
	s.must(p.Append(s.ctx, tp, records("a", "b")...))
	s.must(p.Commit(s.ctx, []byte("m1")))
	s.must(p.Append(s.ctx, tp, records("open")...))
	s.reopen()
	p, mark := s.producer(id)
	if string(mark) != "m1" {
		s.Errorf("mark is %q, want m1", mark)
	}
	s.must(p.Append(s.ctx, tp, records("c")...))
	s.must(p.Commit(s.ctx, []byte("m2")))
	if got := s.readAll(tp); !slices.Equal(got, []string{"a", "b", "c"}) {
		s.Errorf("read %q, want a, b and c", got)
	}
}

// largeRecords and largeBytes make a transaction that no backend keeps in memory: 24 MiB.
const largeRecords, largeBytes = 6000, 4096

func appendLarge(s *suite, p log.Producer, name string) {
	s.Helper()
	value := make([]byte, largeBytes)
	for i := range largeRecords {
		for j := range value {
			value[j] = byte(i * (j + 1) >> 3)
		}
		s.must(p.Append(s.ctx, at(name, int32(i%2)), log.Record{Value: value}))
	}
}

func producerLarge(s *suite) {
	name := s.topic("orders", 2)
	p, _ := s.producer(s.name("source"))
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{at(name, 0), at(name, 1)}})
	appendLarge(s, p, name)
	s.nothing(c, 50*time.Millisecond)
	s.must(p.Commit(s.ctx, []byte("m")))
	got := 0
	for _, values := range s.read(c, largeRecords) {
		got += len(values)
	}
	if got != largeRecords {
		s.Errorf("read %d records, want %d", got, largeRecords)
	}
	s.must(c.Close(s.ctx))
}

func producerLargeAborted(s *suite) {
	name := s.topic("orders", 2)
	p, _ := s.producer(s.name("source"))
	s.append(at(name, 0), "before")
	appendLarge(s, p, name)
	s.append(at(name, 0), "within")
	s.must(p.Abort(s.ctx))
	s.append(at(name, 0), "after")
	if got := s.readAll(at(name, 0)); !slices.Equal(got, []string{"before", "within", "after"}) {
		s.Errorf("read %d records, want the three that were not aborted", len(got))
	}
	if got := s.readAll(at(name, 1)); len(got) != 0 {
		s.Errorf("read %d aborted records", len(got))
	}
}
