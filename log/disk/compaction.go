package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/segment"
	"github.com/trunkline/trunkline/log/vfs"
)

// Compaction keeps, of the records below the last stable offset in sealed segments, the newest of each key. It never
// changes an offset. The result of a run of segments is written to the directory cleaned beside them, and takes their
// place in steps that a crash may stop anywhere:
//
//	cleaned/B.log              being written; an open throws it away
//	B-E.swap                   complete and durable: stands for the segments from offset B to before E
//	(segments B to E removed)  an open does this again, and goes on
//	B.log                      the result
//
// Kept batches lose their producer: their transaction is decided, and its marker goes.
const (
	cleanedDir      = "cleaned"
	swapSuffix      = ".swap"
	cleanerName     = "cleaner-checkpoint"
	maxCompactKeys  = 64 << 20 // bytes of keys that one round remembers; what does not fit waits for the next round
	keyOverhead     = 48       // of an entry in a map of strings, bytes
	maxCleanerFile  = 1 << 20
	maxCleanerLines = 1000
)

// compactor is one round of compaction of one partition.
type compactor struct {
	p       *partition
	newest  map[string]int64 // key to the offset of its newest record
	bytes   int
	end     int64 // newest knows everything below
	noTombs int64 // tombstones below have been kept long enough

	decoder batch.Decoder
	records []log.Record
	builder batch.Builder
	out     []byte
}

// compact does a round if at least half of the sealed bytes were not compacted before.
func (p *partition) compact(now time.Time) error {
	if !p.topic.config().Compact || p.removed.Load() {
		return nil
	}
	rounds, err := p.readCleaner()
	if err != nil {
		return err
	}
	sealed, cleaned := p.compactable(), int64(0)
	if len(rounds) > 0 {
		cleaned = rounds[len(rounds)-1].end
	}
	dirty, total := int64(0), int64(0)
	for _, s := range sealed {
		total += s.End().Position
		if s.End().Offset > cleaned {
			dirty += s.End().Position
		}
	}
	if dirty == 0 || 2*dirty < total {
		return nil
	}
	// A round that a disk error stopped may have left a swap file, and with it the only name of what it stands for.
	if err := p.finishCompaction(); err != nil {
		return err
	}
	if p.tp.Topic == positionsTopic {
		// A decision may go once the markers that it stands for cannot be lost any more.
		for _, other := range p.l.partitionList() {
			if err := other.flushTail(); err != nil {
				return fmt.Errorf("flush markers of %s-%d: %w", other.tp.Topic, other.tp.Partition, err)
			}
		}
	}
	c := &compactor{p: p, newest: map[string]int64{}, end: cleaned}
	for _, r := range rounds {
		if now.Sub(r.at) >= p.l.o.TombstoneRetention {
			c.noTombs = r.end
		}
	}
	if err := c.run(sealed); err != nil {
		return err
	}
	p.l.logger.Info("compacted", "topic", p.tp.Topic, "partition", p.tp.Partition, "offset", c.end, "bytes", total)
	rounds = slices.DeleteFunc(rounds, func(r cleanerRound) bool { return r.end < c.noTombs })
	return p.writeCleaner(append(rounds, cleanerRound{end: c.end, at: now}))
}

// compactable returns the sealed segments that are decided.
func (p *partition) compactable() []*held {
	p.files.RLock()
	defer p.files.RUnlock()
	stable := p.stable.Load()
	n := 0
	for n < len(p.segments)-1 && p.segments[n].End().Offset <= stable {
		n++
	}
	return slices.Clone(p.segments[:n])
}

// run learns the newest offsets of the segments that were not compacted before, and rewrites all below that.
func (c *compactor) run(sealed []*held) error {
	n := 0
	for _, s := range sealed {
		end := s.End().Offset
		if end > c.end {
			if c.bytes >= maxCompactKeys {
				break
			}
			if err := c.learn(s); err != nil {
				return err
			}
			c.end = end
		}
		n++
	}
	for left := sealed[:n]; len(left) > 0; {
		done, err := c.rewrite(left)
		if err != nil {
			return err
		}
		left = left[done:]
	}
	return nil
}

// each calls fn for every batch with records that committed readers see. A damaged segment is left as it is: the error
// ends the round.
func (c *compactor) each(s *held, fn func(v batch.View) error) error {
	var buf []byte
	for at := (segment.Mark{Offset: s.Base()}); ; {
		c.p.files.RLock()
		if c.p.removed.Load() {
			c.p.files.RUnlock()
			return log.ErrUnknownTopic
		}
		run, err := s.Read(buf, at, s.End().Offset, readBytes)
		c.p.files.RUnlock()
		if err != nil || len(run.Bytes) == 0 {
			return err
		}
		for rest := run.Bytes; len(rest) > 0; {
			var v batch.View
			if v, rest, err = batch.Parse(rest); err != nil {
				return err
			}
			if v.IsControl() || v.Transactional() && c.p.isAborted(v.Producer().ID, v.BaseOffset()) {
				continue
			}
			c.decoder.Reset()
			if c.records, err = c.decoder.Decode(c.records[:0], v); err != nil {
				return err
			}
			if err := fn(v); err != nil {
				return err
			}
		}
		buf, at = run.Bytes, run.End
	}
}

func (c *compactor) learn(s *held) error {
	return c.each(s, func(batch.View) error {
		for i := range c.records {
			r := &c.records[i]
			if r.Key == nil {
				continue
			}
			if _, known := c.newest[string(r.Key)]; !known {
				c.bytes += len(r.Key) + keyOverhead
			}
			c.newest[string(r.Key)] = r.Offset
		}
		return nil
	})
}

// keep says whether a record stays. One without a key is the newest of its own.
func (c *compactor) keep(r *log.Record) bool {
	if r.Key == nil {
		return true
	}
	if newest, ok := c.newest[string(r.Key)]; ok && r.Offset < newest {
		return false
	}
	return r.Value != nil || r.Offset >= c.noTombs
}

// rewrite writes what is kept of the first segments to one, as many as surely fit, puts it in their place, and returns
// how many they were.
func (c *compactor) rewrite(sealed []*held) (int, error) {
	dir := filepath.Join(c.p.dir, cleanedDir)
	if err := vfs.RemoveAll(c.p.l.fs, dir); err != nil {
		return 0, err
	}
	if err := c.p.l.fs.Mkdir(dir); err != nil {
		return 0, err
	}
	base := sealed[0].Base()
	s, err := segment.Create(c.p.l.fs, dir, base, c.p.segmentOptions())
	if err != nil {
		return 0, err
	}
	n := 0
	for ; n < len(sealed) && err == nil; n++ {
		old := sealed[n]
		if n > 0 && (s.End().Position+old.End().Position > c.p.topic.config().SegmentBytes || old.End().Offset-base > maxSegmentOffsets) {
			break
		}
		err = c.each(old, func(v batch.View) error { return c.copy(s, v) })
	}
	if err == nil {
		err = s.Seal()
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return 0, errors.Join(err, vfs.RemoveAll(c.p.l.fs, dir))
	}
	swap := swapName(base, sealed[n-1].End().Offset)
	if err := c.p.l.fs.Rename(s.Path(), filepath.Join(c.p.dir, swap)); err != nil {
		return 0, err
	}
	if err := c.p.l.fs.SyncDir(c.p.dir); err != nil {
		return 0, err
	}
	return n, c.p.install(sealed[:n], swap)
}

// copy appends what is kept of the batch in c.records.
func (c *compactor) copy(s *segment.Segment, v batch.View) error {
	c.builder.Reset()
	for i := range c.records {
		if r := &c.records[i]; c.keep(r) {
			c.builder.AppendAt(r, r.Timestamp, int32(r.Offset-v.BaseOffset()))
		}
	}
	if c.builder.Count() == 0 {
		return nil
	}
	var err error
	if c.out, err = c.builder.Build(c.out[:0], v.Codec(), batch.NoProducer, false); err != nil {
		return err
	}
	batch.View(c.out).SetBaseOffset(v.BaseOffset())
	batch.View(c.out).SetLeaderEpoch(v.LeaderEpoch())
	_, err = s.Copy(c.out)
	return err
}

// install puts a swap file in the place of the segments that it stands for.
func (p *partition) install(group []*held, swap string) error {
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files.Lock()
	defer p.files.Unlock()
	if p.removed.Load() {
		return nil
	}
	i := slices.Index(p.segments, group[0])
	if i < 0 {
		return p.l.fs.Remove(filepath.Join(p.dir, swap)) // retention came first
	}
	if err := p.finishSwap(swap, p.bases()); err != nil {
		return err
	}
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		from := filepath.Join(p.dir, cleanedDir, segment.Name(group[0].Base(), suffix))
		if err := p.l.fs.Rename(from, p.sidePath(group[0].Base(), suffix)); err != nil {
			return err
		}
	}
	last := group[len(group)-1]
	s, err := segment.Open(p.l.fs, p.dir, group[0].Base(), last.End().Offset, p.segmentOptions())
	if err != nil {
		return err
	}
	var errs []error
	for _, old := range group {
		errs = append(errs, old.Close())
	}
	p.segments = slices.Replace(p.segments, i, i+len(group), &held{Segment: s, created: group[0].created, appended: last.appended})
	return errors.Join(errs...)
}

func swapName(base, end int64) string {
	return segment.Name(base, "-") + segment.Name(end, swapSuffix)
}

func parseSwapName(name string) (base, end int64, ok bool) {
	first, second, found := strings.Cut(name, "-")
	if !found {
		return 0, 0, false
	}
	base, ok1 := segment.ParseName(first+"-", "-")
	end, ok2 := segment.ParseName(second, swapSuffix)
	return base, end, ok1 && ok2
}

// finishSwap removes the segments that a swap file stands for, and gives it their name.
func (p *partition) finishSwap(swap string, bases []int64) error {
	base, end, _ := parseSwapName(swap)
	for _, b := range bases {
		if b > base && b < end {
			if err := segment.Remove(p.l.fs, p.dir, b); err != nil {
				return err
			}
		}
	}
	// The indexes are those of the old segment. The new ones stand in the cleaned directory; without them they are built
	// anew when they are needed.
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		if err := vfs.RemoveAll(p.l.fs, p.sidePath(base, suffix)); err != nil {
			return err
		}
	}
	if err := p.l.fs.SyncDir(p.dir); err != nil {
		return err
	}
	if err := p.l.fs.Rename(filepath.Join(p.dir, swap), p.sidePath(base, segment.LogSuffix)); err != nil {
		return err
	}
	return p.l.fs.SyncDir(p.dir)
}

// finishCompaction finishes, or takes back, what a crash left of a compaction.
func (p *partition) finishCompaction() error {
	if err := vfs.RemoveAll(p.l.fs, filepath.Join(p.dir, cleanedDir)); err != nil {
		return err
	}
	names, err := p.l.fs.List(p.dir)
	if err != nil {
		return err
	}
	var bases []int64
	var swaps []string
	for _, name := range names {
		if base, ok := segment.ParseName(name, segment.LogSuffix); ok {
			bases = append(bases, base)
		}
		if _, _, ok := parseSwapName(name); ok {
			swaps = append(swaps, name)
		}
	}
	for _, swap := range swaps {
		if err := p.finishSwap(swap, bases); err != nil {
			return fmt.Errorf("finish %s: %w", swap, err)
		}
	}
	return nil
}

// cleanerRound says that everything below end was compacted at a time. It tells how long tombstones have been kept.
type cleanerRound struct {
	end int64
	at  time.Time
}

// readCleaner reads the rounds: lines of an offset and milliseconds since 1970. A file that makes no sense is as good as
// none; compaction begins anew.
func (p *partition) readCleaner() ([]cleanerRound, error) {
	b, err := vfs.ReadFile(p.l.fs, filepath.Join(p.dir, cleanerName), maxCleanerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseCleaner(string(b)), nil
}

func parseCleaner(text string) []cleanerRound {
	var out []cleanerRound
	for line := range strings.Lines(text) {
		offset, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		end, err := strconv.ParseInt(offset, 10, 64)
		ms, err2 := strconv.ParseInt(at, 10, 64)
		if err != nil || err2 != nil || len(out) > 0 && end < out[len(out)-1].end {
			return nil
		}
		out = append(out, cleanerRound{end: end, at: time.UnixMilli(ms)})
	}
	return out
}

func (p *partition) writeCleaner(rounds []cleanerRound) error {
	if n := len(rounds); n > maxCleanerLines {
		rounds = rounds[n-maxCleanerLines:]
	}
	var b []byte
	for _, r := range rounds {
		b = strconv.AppendInt(b, r.end, 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, r.at.UnixMilli(), 10)
		b = append(b, '\n')
	}
	return vfs.WriteFile(p.l.fs, filepath.Join(p.dir, cleanerName), b)
}
