package disk

import (
	"maps"
	"slices"
	"sync"
)

// abortIndex finds out whether a batch belongs to a transaction that was aborted.
type abortIndex struct {
	mu    sync.RWMutex
	byPID map[int64][]span // in order
}

// span is the offsets from first to before end.
type span struct{ first, end int64 }

func (x *abortIndex) add(pid, first, end int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byPID == nil {
		x.byPID = map[int64][]span{}
	}
	x.byPID[pid] = append(x.byPID[pid], span{first, end})
}

func (x *abortIndex) contains(pid, offset int64) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	spans := x.byPID[pid]
	i, _ := slices.BinarySearchFunc(spans, offset, func(s span, o int64) int {
		if s.end <= o {
			return -1
		}
		return 1
	})
	return i < len(spans) && spans[i].first <= offset
}

// endedIn returns the transactions that were ended by a marker at an offset from first to before end, each producer's in
// order.
func (x *abortIndex) endedIn(first, end int64) []abortedTransaction {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []abortedTransaction
	for _, pid := range slices.Sorted(maps.Keys(x.byPID)) {
		for _, s := range x.byPID[pid] {
			if s.end >= first && s.end < end {
				out = append(out, abortedTransaction{pid: pid, span: s})
			}
		}
	}
	return out
}

// cut forgets what lay at or behind end, where the log was cut off: other records get these offsets.
func (x *abortIndex) cut(end int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for pid, spans := range x.byPID {
		kept := spans[:0:0]
		for _, s := range spans {
			if s.first < end {
				kept = append(kept, span{first: s.first, end: min(s.end, end)})
			}
		}
		x.byPID[pid] = kept
	}
}

// trim forgets what lies before start.
func (x *abortIndex) trim(start int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for pid, spans := range x.byPID {
		spans = slices.DeleteFunc(spans, func(s span) bool { return s.end <= start })
		if len(spans) == 0 {
			delete(x.byPID, pid)
			continue
		}
		x.byPID[pid] = spans
	}
}

func (p *partition) isAborted(pid, offset int64) bool { return p.aborts.contains(pid, offset) }
