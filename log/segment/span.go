package segment

import (
	"fmt"
	"sort"
)

// Span finds whole batches like Read but does not read them: it returns where the first begins and where the last ends.
// Of the batches between, only a few headers are looked at, and no checksum; the index says where they stand. An empty
// span has nothing in it; its end is where to go on. Any goroutine may ask.
func (s *Segment) Span(offset, end int64, maxBytes int) (from, to Mark, err error) {
	written := s.End()
	end = min(end, written.Offset)
	if offset >= end {
		return Mark{Offset: offset}, Mark{Offset: offset}, nil
	}
	st, err := s.loaded()
	if err != nil {
		return Mark{}, Mark{}, err
	}
	sc := newScanner(s.file, s.options.MaxBatch)
	if from, err = s.search(sc, st, offset, written); err != nil || from == written {
		return from, from, err
	}
	limit := from.Position + int64(max(maxBytes, 1))
	if end == written.Offset && written.Position <= limit {
		return from, written, nil
	}
	to = from
	if i := s.lastIndexed(st, limit, end); i >= 0 && int64(st.index[i].position) > from.Position {
		v, err := sc.header(int64(st.index[i].position), written.Position)
		if err == nil && v.LastOffset() == s.base+int64(st.index[i].relative) {
			to = Mark{Position: int64(st.index[i].position), Offset: v.BaseOffset()}
		}
	}
	for to.Position < written.Position {
		v, after, err := sc.next(to, written)
		if err != nil && to != from {
			break // the next reader meets the damage
		}
		if err != nil {
			return from, from, fmt.Errorf("read segment: %w", err)
		}
		if v.BaseOffset() >= end || after.Position > limit && to != from {
			break
		}
		to = after
	}
	return from, to, nil
}

// lastIndexed returns the last indexed batch that begins at or before a position and ends before an offset, -1 if none
// does.
func (s *Segment) lastIndexed(st *state, position, offset int64) int {
	return sort.Search(len(st.index), func(i int) bool {
		return int64(st.index[i].position) > position || s.base+int64(st.index[i].relative) >= offset
	}) - 1
}
