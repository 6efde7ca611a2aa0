package ingest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// move writes a change of the key as the end of one row and the beginning of another, which may be in another
// partition. The two are tied (codec.Move) where a reader needs both at once.
func (w *writer) move(r *route, c *connectors.Change) error {
	gone, came := *c, *c
	gone.Op, gone.After = connectors.Delete, nil
	came.Op, came.Before = connectors.Insert, nil
	lacking := slices.IndexFunc(c.After, connectors.Value.IsAbsent)
	twin := twins(c)
	if lacking >= 0 {
		w.warnMove(c.Table, lacking)
	}
	foreign := r.encoder.Name() != codec.Lossless
	if lacking < 0 && !twin && !foreign {
		if err := w.row(r, &gone, nil); err != nil {
			return err
		}
		return w.row(r, &came, nil)
	}
	oldKey, err := w.encoder.AppendKey(nil, c.Table, c.Before, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	newKey, err := w.encoder.AppendKey(nil, c.Table, c.After, c.Before)
	if err != nil {
		return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	n := int32(len(r.partitions))
	oldWire, newWire := oldKey, newKey
	if r.encoding != nil {
		if oldWire, err = r.encoder.AppendKey(nil, c.Table, c.Before, nil); err == nil {
			newWire, err = r.encoder.AppendKey(nil, c.Table, c.After, c.Before)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
	}
	from, to := log.PartitionFor(oldWire, n), log.PartitionFor(newWire, n)
	var end, begin *log.Header
	switch {
	case foreign:
		end, begin = &log.Header{Key: codec.HeaderNewKey, Value: newKey}, &log.Header{Key: codec.HeaderOldKey, Value: oldKey}
	// In one partition the order is enough for equal keys. The delete would be left to the insert, which compaction may
	// take away.
	case from != to || lacking >= 0 && !r.compacted:
		id := w.nextBarrier()
		end = &log.Header{Key: codec.HeaderMove, Value: codec.AppendMove(nil, codec.Move{ID: id, Partition: to, Twin: twin})}
		begin = &log.Header{Key: codec.HeaderMove, Value: codec.AppendMove(nil, codec.Move{ID: id, Partition: from, Key: oldKey})}
	}
	if err := w.row(r, &gone, end); err != nil {
		return err
	}
	// The old key is what a key column holds that the new row does not carry.
	came.After = slices.Clone(came.After)
	for _, k := range c.Table.Key {
		if came.After[k].IsAbsent() {
			came.After[k] = c.Before[k]
		}
	}
	return w.row(r, &came, begin)
}

// twins reports whether a database may take the old and the new key for equal: 0 and -0, 1 and 1.00, a and A under many a
// collation. The delete of one would remove the other there.
func twins(c *connectors.Change) bool {
	for _, k := range c.Table.Key {
		before, after := c.Before[k], c.After[k]
		if before.IsAbsent() || after.IsAbsent() || before.Equal(after) {
			continue
		}
		if !maybeEqual(c.Table.Columns[k].Kind, before, after) {
			return false
		}
	}
	return true
}

func maybeEqual(kind connectors.Kind, a, b connectors.Value) bool {
	switch kind {
	case connectors.Bool, connectors.Int, connectors.Uint, connectors.Bytes, connectors.Date, connectors.Time, connectors.Timestamp,
		connectors.TimestampTZ, connectors.Bits:
		return false
	case connectors.Float, connectors.Decimal:
		return bytes.Equal(plainNumber(a.Data()), plainNumber(b.Data()))
	case connectors.Text:
		return sameLetters(string(a.Data()), string(b.Data()))
	}
	return true
}

// plainNumber takes off what two spellings of one number may differ in. Numbers with an exponent come out as they are.
func plainNumber(text []byte) []byte {
	if bytes.ContainsAny(text, "eE") {
		return text
	}
	if bytes.IndexByte(text, '.') >= 0 {
		text = bytes.TrimRight(bytes.TrimRight(text, "0"), ".")
	}
	if digits := bytes.TrimLeft(text, "-0."); len(digits) == 0 {
		return []byte("0")
	}
	return text
}

// sameLetters compares as a collation does that looks at no case and no trailing space. What such a collation makes of other
// scripts is not known here.
func sameLetters(a, b string) bool {
	return !ascii(a) || !ascii(b) || strings.EqualFold(strings.TrimRight(a, " "), strings.TrimRight(b, " "))
}

func ascii(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) < 0
}

// warnMove tells once for a table that a key change leaves out a column that the source did not send.
func (w *writer) warnMove(t *connectors.Table, column int) {
	if w.warned[t.FullName()] {
		return
	}
	w.warned[t.FullName()] = true
	w.report(connectors.Report{Table: t.FullName(), Reason: fmt.Sprintf(
		"a row got a new key, and its unchanged column %q did not come with it: a sink that is a database takes it from the old row, others get a row without it; "+
			"the source can send whole old rows (PostgreSQL: REPLICA IDENTITY FULL)",
		t.Columns[column].Name)})
}
