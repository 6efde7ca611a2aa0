package deliver_test

import (
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

func TestRowWithANewKeyKeepsWhatTheChangeDoesNotCarry(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int32{1, 4} {
		for _, rows := range []int{1, 3, 1000} {
			s := newLine(t)
			s.topics.Partitions = partitions
			for id := range 30 {
				s.feed.Append(insert(id, "v"))
			}
			for id := range 30 {
				s.feed.Append(lackingRekey(id, id+100), lackingRekey(id+100, id+200), insert(id, "the old key again"))
			}
			s.feed.Append(connectors.Change{Op: connectors.Truncate, Table: items}, insert(1, "v"), lackingRekey(1, 2))
			s.ingest()
			o := s.options()
			o.Batch.Rows = rows
			s.mustDeliver(o)
			s.want(map[string]string{"2": "v"})
			for id := 10; id < 40; id++ {
				s.feed.Append(insert(id, "v"), lackingRekey(id, id+100), lackingRekey(id+100, id+200))
			}
			s.ingest()
			s.mustDeliver(o)
			want := numbered(210, 240)
			want["2"] = "v"
			s.want(want)
		}
	}
}

// Other sinks get the two records as they are.
func TestMoveIsTwoChangesForAPlainSink(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.feed.Append(insert(1, "v"), lackingRekey(1, 2))
	s.ingest()
	o := s.options()
	o.Open = s.store.OpenPlain
	s.mustDeliver(o)
	s.want(map[string]string{"2": ""})
}
