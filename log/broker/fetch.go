package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// firstFetchByID is the version from which topics are named by their ids.
const firstFetchByID = 13

// smallRead is up to how many bytes of a partition are read into memory, which is cheaper for few than opening the file.
const smallRead = 32 << 10

// maxInMemory bounds what is read into memory for one response: its peer may never take it.
const maxInMemory = 1 << 20

// maxWait bounds how long a fetch may ask to wait.
const maxWait = time.Minute

// fetch waits until there is enough to read and hands out stored batches.
func (s *Server) fetch(r *request) answer {
	req := r.message.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	resp.Topics = []kmsg.FetchResponseTopic{}
	f := &fetch{s: s, c: r.c, req: req, resp: resp}
	if bad := f.begin(); bad != nil {
		resp.ErrorCode = bad.Code
		return now(resp)
	}
	f.resolve()
	return later(f.run)
}

// fetchPartition is one partition that a request wants to read.
type fetchPartition struct {
	topic      string // the client's name of it; empty: id is
	id         [16]byte
	ask        kmsg.FetchRequestTopicPartition
	remembered *sessionPartition // nil: there is no session
	name       string            // empty: nobody knows the id
}

// fetch is one fetch request.
type fetch struct {
	s       *Server
	c       *conn
	req     *kmsg.FetchRequest
	resp    *kmsg.FetchResponse
	session *fetchSession // nil: none
	full    bool          // the response names every partition
	wanted  []fetchPartition
	told    []toldPartition

	inMemory int // bytes that were read for the response
}

// begin finds out what the request wants: what it names, or what its session remembers.
func (f *fetch) begin() *kerr.Error {
	sessions := f.s.fetches
	f.full = f.req.Version < firstFetchSession || f.req.SessionEpoch == initialEpoch || f.req.SessionEpoch == finalEpoch
	if !f.full {
		f.session = sessions.find(f.req.SessionID, time.Now())
		if f.session == nil {
			return kerr.FetchSessionIDNotFound
		}
		if bad := f.session.advance(f.req, sessions); bad != nil {
			return bad
		}
		f.resp.SessionID = f.session.id
		f.wanted = f.session.wanted()
		return nil
	}
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		for _, p := range t.Partitions {
			f.wanted = append(f.wanted, fetchPartition{topic: t.Topic, id: t.TopicID, ask: p})
		}
	}
	if f.req.Version < firstFetchSession {
		return nil
	}
	if f.req.SessionID != 0 {
		sessions.end(f.req.SessionID)
	}
	if f.req.SessionEpoch == finalEpoch || len(f.wanted) == 0 || !keepable(f.req) {
		return nil
	}
	if f.session = sessions.open(len(f.wanted), f.req.Version >= firstFetchByID, time.Now()); f.session == nil {
		return nil
	}
	f.resp.SessionID = f.session.id
	f.session.mu.Lock()
	f.session.take(f.req)
	f.session.mu.Unlock()
	f.wanted = f.session.wanted()
	return nil
}

// resolve finds the names of topics that are named by their ids.
func (f *fetch) resolve() {
	for i := range f.wanted {
		w := &f.wanted[i]
		w.name = w.topic
		if f.req.Version < firstFetchByID {
			continue
		}
		if i > 0 && f.wanted[i-1].id == w.id {
			w.name = f.wanted[i-1].name
		} else {
			w.name, _ = f.s.topicName(w.id)
		}
	}
}

// run reads until there is enough, time is up or the connection is done.
func (f *fetch) run() output {
	out := f.await()
	if f.session != nil {
		f.session.told(f.told)
	}
	return out
}

func (f *fetch) await() output {
	out, enough := f.read()
	wait := min(time.Duration(f.req.MaxWaitMillis)*time.Millisecond, maxWait)
	if enough || wait <= 0 {
		return out
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	tps := make([]log.TopicPartition, len(f.wanted))
	for i := range f.wanted {
		tps[i] = log.TopicPartition{Topic: f.wanted[i].name, Partition: f.wanted[i].ask.Partition}
	}
	watch := f.s.journal.Watch(tps)
	defer watch.Close()
	for {
		if out, enough = f.read(); enough {
			return out
		}
		select {
		case <-watch.C:
		case <-timer.C:
			return out
		case <-f.c.done:
			return out
		case <-f.s.closing:
			return out
		}
	}
}

// read fills the response with what is there now. enough: it can be sent.
func (f *fetch) read() (out output, enough bool) {
	f.resp.Topics, f.told, f.inMemory = f.resp.Topics[:0], f.told[:0], 0
	left := min(int(f.req.MaxBytes), f.s.o.MaxFetchBytes)
	total := 0
	for i := range f.wanted {
		w := &f.wanted[i]
		part, run := f.partition(w.name, &w.ask, left)
		n := run.size()
		if !f.full && !f.session.hasNews(w.remembered, &part, n) {
			continue
		}
		if part.ErrorCode != 0 {
			enough = true
		}
		if n > 0 {
			left -= n
			total += n
			out.records = append(out.records, run)
		}
		if f.session != nil {
			f.told = append(f.told, toldPartition{w.remembered, part.HighWatermark, part.LastStableOffset, part.LogStartOffset, n > 0})
		}
		f.add(w, part)
	}
	out.response = f.resp
	return out, enough || total >= int(f.req.MinBytes) || len(f.wanted) == 0
}

// add puts a partition into the response, to its topic if that is the last one there.
func (f *fetch) add(w *fetchPartition, part kmsg.FetchResponseTopicPartition) {
	n := len(f.resp.Topics)
	if n == 0 || f.resp.Topics[n-1].Topic != w.topic || f.resp.Topics[n-1].TopicID != w.id {
		f.resp.Topics = append(f.resp.Topics, kmsg.FetchResponseTopic{Topic: w.topic, TopicID: w.id})
		n++
	}
	t := &f.resp.Topics[n-1]
	t.Partitions = append(t.Partitions, part)
}

// partition reads one partition, at most left bytes but the first batch whole.
func (f *fetch) partition(name string, p *kmsg.FetchRequestTopicPartition, left int) (kmsg.FetchResponseTopicPartition, stored) {
	part := kmsg.NewFetchResponseTopicPartition()
	part.Partition, part.PreferredReadReplica = p.Partition, -1
	part.RecordBatches = []byte{} // not null, which librdkafka takes for an error
	part.HighWatermark, part.LastStableOffset, part.LogStartOffset = -1, -1, -1
	if name == "" && f.req.Version >= firstFetchByID {
		part.ErrorCode = kerr.UnknownTopicID.Code
		return part, stored{}
	}
	if p.CurrentLeaderEpoch > leaderEpoch {
		part.ErrorCode = kerr.UnknownLeaderEpoch.Code
		return part, stored{}
	}
	const committed = 1
	limit := min(int(p.PartitionMaxBytes), left)
	small := smallRead
	if f.inMemory > maxInMemory {
		small = 0
	}
	chunk, place, err := f.s.journal.FindBatches(log.TopicPartition{Topic: name, Partition: p.Partition}, p.FetchOffset, limit,
		small, f.req.IsolationLevel == committed)
	f.inMemory += len(chunk.Bytes)
	if err != nil {
		part.ErrorCode = codeOf(err)
	}
	if err == nil || chunk.HighWatermark > 0 {
		part.HighWatermark, part.LastStableOffset, part.LogStartOffset = chunk.HighWatermark, chunk.LastStable, chunk.LogStart
	}
	if f.req.IsolationLevel == committed {
		part.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for _, a := range chunk.Aborted {
			t := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			t.ProducerID, t.FirstOffset = a.Producer, a.First
			part.AbortedTransactions = append(part.AbortedTransactions, t)
		}
	}
	if len(chunk.Bytes) == 0 && place.Length == 0 {
		return part, stored{}
	}
	part.RecordBatches = newPlaceholder()
	return part, stored{placeholder: part.RecordBatches, bytes: chunk.Bytes, place: place}
}
