package deliver

import (
	"fmt"
	"time"

	"github.com/trunkline/trunkline/log"
)

// gathering is a batch that is not full and waits for more records of its partition. What came is counted and not kept:
// the batch is read again when it is due, so that a wait costs no memory, however many partitions there are.
type gathering struct {
	from  int64     // offset of its first record
	end   int64     // the offset behind what was counted
	rows  int       //
	bytes int       // as recordBytes counts them
	until time.Time // when it goes out as it is; zero: nothing is gathered
}

func (g *gathering) open() bool { return !g.until.IsZero() }

func (g *gathering) add(f log.Fetch) {
	g.end, g.rows = f.Next, g.rows+len(f.Records)
	for i := range f.Records {
		g.bytes += recordBytes(&f.Records[i])
	}
}

// full reports whether a batch has no room for more.
func (b Batch) full(g *gathering) bool { return g.rows >= b.Rows || g.bytes >= b.Bytes }

// gather counts a fetch towards a batch that waits for more, and reports false if the fetch is dealt with now. It is
// where it is full, where it is part of what has waited already, and where the rest of a full batch is there to be read.
func (r *run) gather(p *partition, f log.Fetch) (bool, error) {
	if r.o.Batch.Wait == 0 {
		return false, nil
	}
	g := &p.gathering
	if g.open() {
		g.add(f)
		if !r.o.Batch.full(g) {
			return true, nil
		}
		return true, r.ripen(p)
	}
	if len(f.Records) == 0 || f.Records[0].Offset < p.due {
		return false, nil
	}
	begun := gathering{from: f.Records[0].Offset}
	begun.add(f)
	if r.o.Batch.full(&begun) || f.Next < f.HighWatermark && f.HighWatermark-begun.from >= int64(r.o.Batch.Rows) {
		return false, nil
	}
	*g = begun
	g.until = time.Now().Add(r.o.Batch.Wait)
	return true, nil
}

// ripen ends the wait of a partition's batch: what was counted is read again and dealt with.
func (r *run) ripen(p *partition) error {
	g := p.gathering
	p.gathering, p.due = gathering{}, g.end
	if err := r.consumer.Seek(p.TopicPartition, g.from); err != nil {
		return fmt.Errorf("seek %s: %w", p.stream, err)
	}
	return nil
}

// ripenWaiting ends the waits whose time is over.
func (r *run) ripenWaiting() error {
	if r.o.Batch.Wait == 0 {
		return nil
	}
	now := time.Now()
	for _, p := range r.partitions {
		if p.gathering.open() && !now.Before(p.gathering.until) {
			if err := r.ripen(p); err != nil {
				return err
			}
		}
	}
	return nil
}
