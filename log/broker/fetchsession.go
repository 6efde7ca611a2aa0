package broker

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	firstFetchSession = 7
	initialEpoch      = 0  // the request names everything, and asks for a session
	finalEpoch        = -1 // the request names everything, and wants none

	// sessionIdle is how long a session has to be unused before another may take its place.
	sessionIdle = 2 * time.Minute
)

// sessionKey is a partition as a client names it: by the topic's name, or from version 13 on by its id.
type sessionKey struct {
	topic     string
	id        [16]byte
	partition int32
}

// sessionPartition is what a session remembers of a partition: what the client asked for, and what it was told last.
type sessionPartition struct {
	key                     sessionKey
	ask                     kmsg.FetchRequestTopicPartition
	high, stable, start     int64 // -1: to be told again, whatever it is
	forgotten, hadSomething bool
}

// fetchSession lets a client name only the partitions whose offsets changed, and hear only of those with news (KIP-227).
type fetchSession struct {
	id   int32
	byID bool // its topics are named by their ids

	// Guarded by the lock of the cache.
	used  time.Time
	count int // partitions that are counted for it

	mu    sync.Mutex
	epoch int32 // of the next request
	order []*sessionPartition
	known map[sessionKey]*sessionPartition
}

// fetchSessions keeps the sessions of all connections: at most so many, with at most so many partitions together. Whom
// there is no room for is answered without a session, which costs it no more than longer requests.
type fetchSessions struct {
	mu            sync.Mutex
	all           map[int32]*fetchSession
	maxSessions   int
	maxPartitions int
	partitions    int
}

func newFetchSessions(sessions, partitions int) *fetchSessions {
	return &fetchSessions{all: map[int32]*fetchSession{}, maxSessions: sessions, maxPartitions: partitions}
}

// maxKeptName is the longest name of a topic; a session does not keep longer ones, which name nothing.
const maxKeptName = 249

// keepable reports whether a session may keep what a request names.
func keepable(req *kmsg.FetchRequest) bool {
	for i := range req.Topics {
		if len(req.Topics[i].Topic) > maxKeptName {
			return false
		}
	}
	return true
}

// find returns the session of an incremental request; nil if there is none.
func (c *fetchSessions) find(id int32, now time.Time) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.all[id]
	if x != nil {
		x.used = now
	}
	return x
}

// size returns how many sessions there are, and how many partitions they have.
func (c *fetchSessions) size() (sessions, partitions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all), c.partitions
}

// end forgets a session.
func (c *fetchSessions) end(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.all[id])
}

func (c *fetchSessions) remove(x *fetchSession) {
	if x != nil && c.all[x.id] == x {
		delete(c.all, x.id)
		c.partitions -= x.count
	}
}

// open makes a session for so many partitions; nil if there is no room.
func (c *fetchSessions) open(partitions int, byID bool, now time.Time) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.all) >= c.maxSessions || c.partitions+partitions > c.maxPartitions {
		var oldest *fetchSession
		for _, x := range c.all {
			if oldest == nil || x.used.Before(oldest.used) {
				oldest = x
			}
		}
		if oldest == nil || now.Sub(oldest.used) < sessionIdle {
			return nil
		}
		c.remove(oldest)
	}
	x := &fetchSession{byID: byID, used: now, count: partitions, epoch: initialEpoch + 1, known: make(map[sessionKey]*sessionPartition, partitions)}
	for x.id == 0 || c.all[x.id] != nil {
		x.id = rand.Int32N(math.MaxInt32)
	}
	c.all[x.id] = x
	c.partitions += partitions
	return x
}

// resize counts a session's partitions anew. Without room for them the session ends, and resize reports that.
func (c *fetchSessions) resize(x *fetchSession, partitions int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[x.id] != x {
		return false
	}
	if c.partitions-x.count+partitions > c.maxPartitions {
		c.remove(x)
		return false
	}
	c.partitions += partitions - x.count
	x.count = partitions
	return true
}

// advance takes an incremental request: its epoch has to be the next, and what it names is added, changed or forgotten.
func (x *fetchSession) advance(req *kmsg.FetchRequest, c *fetchSessions) *kerr.Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case req.SessionEpoch != x.epoch:
		return kerr.InvalidFetchSessionEpoch
	case x.byID != (req.Version >= firstFetchByID):
		return kerr.FetchSessionTopicIDError
	case !keepable(req):
		return kerr.InvalidTopicException
	}
	x.epoch++
	if x.epoch < 0 {
		x.epoch = initialEpoch + 1
	}
	x.forget(req)
	x.take(req)
	if !c.resize(x, len(x.order)) {
		return kerr.FetchSessionIDNotFound
	}
	return nil
}

func (x *fetchSession) forget(req *kmsg.FetchRequest) {
	some := false
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			if e := x.known[sessionKey{t.Topic, t.TopicID, p}]; e != nil {
				delete(x.known, e.key)
				e.forgotten, some = true, true
			}
		}
	}
	if !some {
		return
	}
	kept := x.order[:0]
	for _, e := range x.order {
		if !e.forgotten {
			kept = append(kept, e)
		}
	}
	clear(x.order[len(kept):])
	x.order = kept
}

func (x *fetchSession) take(req *kmsg.FetchRequest) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			key := sessionKey{t.Topic, t.TopicID, t.Partitions[j].Partition}
			e := x.known[key]
			if e == nil {
				e = &sessionPartition{key: key, high: -1, stable: -1, start: -1}
				x.known[key] = e
				x.order = append(x.order, e)
			}
			e.ask = t.Partitions[j]
			e.ask.UnknownTags = kmsg.Tags{} // nobody reads them
		}
	}
}

// wanted lists the session's partitions, in the order in which they are to be read.
func (x *fetchSession) wanted() []fetchPartition {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]fetchPartition, 0, len(x.order))
	for _, e := range x.order {
		out = append(out, fetchPartition{topic: e.key.topic, id: e.key.id, ask: e.ask, remembered: e})
	}
	return out
}

// hasNews reports whether a client has to hear of a partition: of records, of an error, and of a watermark that moved.
func (x *fetchSession) hasNews(e *sessionPartition, p *kmsg.FetchResponseTopicPartition, records int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return records > 0 || p.ErrorCode != 0 || e.high != p.HighWatermark || e.stable != p.LastStableOffset || e.start != p.LogStartOffset
}

// told remembers what a response says. Partitions with records go to the end of the order: where a response has no room
// for all, the others come first the next time.
func (x *fetchSession) told(list []toldPartition) {
	x.mu.Lock()
	defer x.mu.Unlock()
	some := false
	for _, t := range list {
		e := t.of
		e.high, e.stable, e.start = t.high, t.stable, t.start
		e.hadSomething = t.records
		some = some || t.records
	}
	if !some {
		return
	}
	turned := make([]*sessionPartition, 0, len(x.order))
	for _, last := range []bool{false, true} {
		for _, e := range x.order {
			if e.hadSomething == last {
				turned = append(turned, e)
			}
		}
	}
	for _, e := range turned {
		e.hadSomething = false
	}
	x.order = turned
}

// toldPartition is what a response says of a remembered partition.
type toldPartition struct {
	of                  *sessionPartition
	high, stable, start int64
	records             bool
}
