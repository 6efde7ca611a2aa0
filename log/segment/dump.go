package segment

import (
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// Item is a batch, or a damaged place, as it stands in a segment file.
type Item struct {
	Position int64
	Size     int64             // bytes up to the next item
	Batch    batch.View        // nil if not even the header makes sense; valid until the next item
	Damage   *log.CorruptError // nil: the batch is whole and its checksum right
}

// Dump walks over a segment file, of a dead log or a live one, from its start. An error ends it; damage does not. A
// half-written batch at the end of a live file is an item with Damage like any other. Nothing is written.
func Dump(fsys vfs.FS, path string, o Options) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		base, ok := ParseName(filepath.Base(path), LogSuffix)
		if !ok {
			yield(Item{}, fmt.Errorf("dump segment: %s is not named as a segment: 20 digits and %s", path, LogSuffix))
			return
		}
		s := newSegment(fsys, filepath.Dir(path), base, o)
		file, err := fsys.Open(path, os.O_RDONLY)
		if err != nil {
			yield(Item{}, fmt.Errorf("dump segment: %w", err))
			return
		}
		defer file.Close()
		size, err := file.Size()
		if err != nil {
			yield(Item{}, fmt.Errorf("dump segment: %w", err))
			return
		}
		s.file = file
		for item, err := range s.items(Mark{Position: size, Offset: base + math.MaxInt32 + 1}) {
			if err != nil {
				err = fmt.Errorf("dump segment: %w", err)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// items walks over all that stands before end.
func (s *Segment) items(end Mark) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		sc := newScanner(s.file, s.options.MaxBatch)
		sc.window = scanWindow
		for at := (Mark{Offset: s.base}); at.Position < end.Position; {
			item, next, err := s.item(sc, at, end)
			if !yield(item, err) || err != nil {
				return
			}
			at = next
		}
	}
}

func (s *Segment) item(sc *scanner, at, end Mark) (Item, Mark, error) {
	v, next, err := sc.next(at, end)
	if err == nil {
		v, err = sc.batch(at.Position, end.Position)
	}
	if err == nil {
		return Item{Position: at.Position, Size: v.Length(), Batch: v}, next, nil
	}
	if !isBad(err) {
		return Item{}, end, err
	}
	item := Item{Position: at.Position}
	if v != nil { // resync reuses the scanner's memory
		item.Batch = append(batch.View(nil), v...)
	}
	next, resyncErr := sc.resync(at, end)
	if resyncErr != nil {
		return Item{}, end, resyncErr
	}
	item.Size = next.Position - at.Position
	item.Damage = s.corrupt(at, next, err)
	return item, next, nil
}

// Report is what Verify found.
type Report struct {
	Batches, Control int64
	Records          int64 // control records not counted
	Bytes            int64 // of the log file
	End              Mark  // behind the last good batch
	MaxTimestamp     int64 // -1 without records
	Damage           []*log.CorruptError
	// Tail is how many bytes stand behind the last good batch of a segment that is not sealed: a batch that is just
	// being written, or that a crash left half written. They are not damage.
	Tail  int64
	Index []string // what is wrong with the indexes; they are built anew when the segment is opened
}

// OK reports whether nothing is damaged.
func (r Report) OK() bool { return len(r.Damage) == 0 && len(r.Index) == 0 }

// Verify reads a whole segment, of a dead log or a live one: checksums, offsets, every record, and the indexes by the
// rules of kafka-dump-log. next is the base of the segment that follows, or -1 for the last, which may have a tail and
// has no indexes. It changes nothing. The error is of the disk.
func Verify(fsys vfs.FS, dir string, base, next int64, o Options) (Report, error) {
	r := Report{MaxTimestamp: -1, End: Mark{Offset: base}}
	sealed := next >= 0
	if !sealed {
		next = base + math.MaxInt32 + 1
	}
	s, err := Open(fsys, dir, base, next, o)
	if err != nil {
		return r, err
	}
	defer s.file.Close()
	r.Bytes = s.End().Position
	c := checker{s: s, report: &r}
	if sealed {
		if err := c.load(); err != nil {
			return r, fmt.Errorf("verify %s: %w", s.Path(), err)
		}
	}
	for item, err := range s.items(s.End()) {
		if err != nil {
			return r, fmt.Errorf("verify %s: %w", s.Path(), err)
		}
		c.item(item)
	}
	if n := len(r.Damage); n > 0 && !sealed && r.Damage[n-1].Position >= r.End.Position {
		r.Tail = r.Bytes - r.End.Position
		r.Damage = r.Damage[:n-1]
	}
	if sealed {
		c.finish()
	}
	return r, nil
}

// checker collects a Report.
type checker struct {
	s       *Segment
	report  *Report
	decoder batch.Decoder
	records []log.Record
	index   []entry     // entries whose batch was not met yet
	times   []timeEntry // likewise
	newest  int64       // the last time entry
	timed   bool        // there is a time index
}

func (c *checker) item(item Item) {
	r := c.report
	if item.Damage != nil {
		r.Damage = append(r.Damage, item.Damage)
		return
	}
	v := item.Batch
	start := Mark{Position: item.Position, Offset: v.BaseOffset()}
	r.End = Mark{Position: item.Position + item.Size, Offset: v.NextOffset()}
	c.compare(item.Position, v)
	r.MaxTimestamp = max(r.MaxTimestamp, v.MaxTimestamp())
	r.Batches++
	if v.IsControl() {
		r.Control++
		if _, err := v.Marker(); err != nil {
			r.Damage = append(r.Damage, c.s.corrupt(start, r.End, err))
		}
		return
	}
	c.decoder.Reset()
	records, err := c.decoder.Decode(c.records[:0], v)
	c.records = records
	if err != nil {
		r.Damage = append(r.Damage, c.s.corrupt(start, r.End, err))
		return
	}
	r.Records += int64(len(records))
}

// load reads the index files.
func (c *checker) load() (err error) {
	if c.index, err = c.s.readIndex(); err != nil {
		if err = c.note(IndexSuffix, err); err != nil {
			return err
		}
	}
	c.times, err = c.s.readTimeIndex()
	c.timed = err == nil
	if n := len(c.times); n > 0 {
		c.newest = c.times[n-1].timestamp
	}
	return c.note(TimeIndexSuffix, err)
}

// compare takes the entries that a batch answers, and notes those that no batch did.
func (c *checker) compare(position int64, v batch.View) {
	for len(c.index) > 0 && int64(c.index[0].position) <= position {
		e := c.index[0]
		c.index = c.index[1:]
		if int64(e.position) != position || c.s.base+int64(e.relative) != v.LastOffset() {
			_ = c.note(IndexSuffix, errIndex(fmt.Sprintf("no batch at byte %d ends with offset %d", e.position, c.s.base+int64(e.relative))))
		}
	}
	for len(c.times) > 0 && c.s.base+int64(c.times[0].relative) <= v.LastOffset() {
		e := c.times[0]
		c.times = c.times[1:]
		if c.s.base+int64(e.relative) != v.LastOffset() || e.timestamp != v.MaxTimestamp() {
			_ = c.note(TimeIndexSuffix, errIndex(fmt.Sprintf("no batch ends with offset %d and time %d", c.s.base+int64(e.relative), e.timestamp)))
		}
	}
}

// finish notes what the indexes lack and what they have too much.
func (c *checker) finish() {
	if len(c.index) > 0 {
		_ = c.note(IndexSuffix, errIndex(fmt.Sprintf("%d entries point behind the last batch", len(c.index))))
	}
	if len(c.times) > 0 {
		_ = c.note(TimeIndexSuffix, errIndex(fmt.Sprintf("%d entries point behind the last batch", len(c.times))))
	}
	if newest := c.report.MaxTimestamp; c.timed && newest >= 0 && c.newest != newest {
		_ = c.note(TimeIndexSuffix, errIndex("the largest time is missing"))
	}
}

// note adds what is wrong with an index to the report, and returns other errors.
func (c *checker) note(suffix string, err error) error {
	if err == nil {
		return nil
	}
	if bad, ok := err.(errIndex); ok {
		c.report.Index = append(c.report.Index, Name(c.s.base, suffix)+": "+string(bad))
		return nil
	}
	return err
}
