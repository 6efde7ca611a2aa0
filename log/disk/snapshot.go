package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trunkline/trunkline/log/segment"
	"github.com/trunkline/trunkline/log/vfs"
)

// Two kinds of small files spare the next open a walk over sealed segments, in Kafka's formats. Both are written when a
// segment is sealed, before the next one exists. A partition whose snapshot is missing or damaged is walked over instead.
//
// B.txnindex: the transactions that were aborted by a marker in segment B; no file if there is none.
//
//	 0 version            int16  0
//	 2 producer id        int64
//	10 first offset       int64
//	18 last offset        int64  of the marker
//	26 last stable offset int64
//
// B.snapshot: the producers before offset B: the last batch of each from outside, and the transactions that are open.
//
//	0 version int16  1
//	2 crc     uint32 CRC-32C of what follows
//	6 count   int32, then for each producer:
//	  producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
//	  coordinator epoch int32, first offset of the open transaction int64 (-1: none)
const (
	txnIndexSuffix = ".txnindex"
	snapshotSuffix = ".snapshot"

	txnEntrySize      = 2 + 4*8
	snapshotHeader    = 2 + 4 + 4
	snapshotEntrySize = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
	snapshotVersion   = 1

	maxSideFile = 256 << 20 // what is read of either file, bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errSnapshot says that a snapshot cannot be used.
var errSnapshot = errors.New("snapshot is missing or damaged")

// abortedTransaction is an entry of a txnindex.
type abortedTransaction struct {
	pid  int64
	span span
}

func encodeTxnIndex(list []abortedTransaction) []byte {
	b := make([]byte, 0, len(list)*txnEntrySize)
	for _, a := range list {
		b = binary.BigEndian.AppendUint16(b, 0)
		b = binary.BigEndian.AppendUint64(b, uint64(a.pid))
		b = binary.BigEndian.AppendUint64(b, uint64(a.span.first))
		b = binary.BigEndian.AppendUint64(b, uint64(a.span.end))
		b = binary.BigEndian.AppendUint64(b, uint64(a.span.end))
	}
	return b
}

func decodeTxnIndex(b []byte) ([]abortedTransaction, error) {
	if len(b)%txnEntrySize != 0 {
		return nil, fmt.Errorf("transaction index of %d bytes", len(b))
	}
	out := make([]abortedTransaction, 0, len(b)/txnEntrySize)
	for ; len(b) > 0; b = b[txnEntrySize:] {
		a := abortedTransaction{pid: int64(binary.BigEndian.Uint64(b[2:])),
			span: span{first: int64(binary.BigEndian.Uint64(b[10:])), end: int64(binary.BigEndian.Uint64(b[18:]))}}
		if binary.BigEndian.Uint16(b) != 0 || a.span.first < 0 || a.span.end < a.span.first {
			return nil, errors.New("transaction index entry makes no sense")
		}
		out = append(out, a)
	}
	return out, nil
}

func encodeSnapshot(open map[int64]openTransaction, sequences map[int64]*sequence) []byte {
	b := make([]byte, snapshotHeader, snapshotHeader+(len(open)+len(sequences))*snapshotEntrySize)
	count := 0
	entry := func(pid int64, epoch int16, r sequenceRun, touched, first int64) {
		last, delta := r.offset, int32(0)
		if r.last >= 0 {
			delta = r.delta()
			last += int64(delta)
		}
		b = binary.BigEndian.AppendUint64(b, uint64(pid))
		b = binary.BigEndian.AppendUint16(b, uint16(epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(r.last))
		b = binary.BigEndian.AppendUint64(b, uint64(last))
		b = binary.BigEndian.AppendUint32(b, uint32(delta))
		b = binary.BigEndian.AppendUint64(b, uint64(touched))
		b = binary.BigEndian.AppendUint32(b, leaderEpoch)
		b = binary.BigEndian.AppendUint64(b, uint64(first))
		count++
	}
	unknown := sequenceRun{first: -1, last: -1, offset: -1} // of producers of this process: nobody asks for their sequences
	for pid, t := range open {
		s := sequences[pid]
		if s == nil || s.n == 0 || s.epoch != t.epoch {
			entry(pid, t.epoch, unknown, -1, t.first)
		} else {
			entry(pid, s.epoch, s.runs[s.n-1], s.touched, t.first)
		}
	}
	for pid, s := range sequences {
		if _, ok := open[pid]; !ok && s.n > 0 {
			entry(pid, s.epoch, s.runs[s.n-1], s.touched, -1)
		}
	}
	binary.BigEndian.PutUint16(b, snapshotVersion)
	binary.BigEndian.PutUint32(b[6:], uint32(count))
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

func decodeSnapshot(b []byte) (map[int64]openTransaction, map[int64]*sequence, error) {
	if len(b) < snapshotHeader || binary.BigEndian.Uint16(b) != snapshotVersion || crc32.Checksum(b[6:], castagnoli) != binary.BigEndian.Uint32(b[2:]) {
		return nil, nil, errSnapshot
	}
	n := binary.BigEndian.Uint32(b[6:])
	b = b[snapshotHeader:]
	if uint64(len(b)) != uint64(n)*snapshotEntrySize {
		return nil, nil, errSnapshot
	}
	open := make(map[int64]openTransaction, n)
	sequences := make(map[int64]*sequence, n)
	for ; len(b) > 0; b = b[snapshotEntrySize:] {
		pid, epoch := int64(binary.BigEndian.Uint64(b)), int16(binary.BigEndian.Uint16(b[8:]))
		if first := int64(binary.BigEndian.Uint64(b[38:])); first >= 0 {
			open[pid] = openTransaction{epoch: epoch, first: first}
		}
		last, delta := int32(binary.BigEndian.Uint32(b[10:])), int32(binary.BigEndian.Uint32(b[22:]))
		if last < 0 {
			continue
		}
		s := &sequence{epoch: epoch, touched: int64(binary.BigEndian.Uint64(b[26:]))}
		s.add(sequenceRun{first: firstSequence(last, delta), last: last, offset: int64(binary.BigEndian.Uint64(b[14:])) - int64(delta)})
		sequences[pid] = s
	}
	return open, sequences, nil
}

func (p *partition) sidePath(base int64, suffix string) string {
	return filepath.Join(p.dir, segment.Name(base, suffix))
}

// writeSides writes the side files of a segment that was sealed and ends at end. A snapshot says that the transaction
// index is complete, so the name of the latter is durable first. Markers that are still owed have not ended their
// transactions on disk, so these are open there. mu is held.
func (p *partition) writeSides(sealed *held, end int64) error {
	if list := p.aborts.endedIn(sealed.Base(), end); len(list) > 0 {
		if err := p.writeSide(sealed.Base(), txnIndexSuffix, encodeTxnIndex(list)); err != nil {
			return err
		}
		if err := p.l.fs.SyncDir(p.dir); err != nil {
			return err
		}
	}
	expireSequences(p.sequences, time.Now())
	open := make(map[int64]openTransaction, len(p.open)+len(p.owed))
	for pid, t := range p.open {
		open[pid] = t
	}
	for _, m := range p.owed {
		// The oldest of a producer is what the file holds; it can append nothing before its marker is written.
		open[m.pid] = openTransaction{epoch: m.epoch, first: m.first}
	}
	return p.writeSide(end, snapshotSuffix, encodeSnapshot(open, p.sequences))
}

// writeSide writes a file and its content; the name is durable with the next segment's.
func (p *partition) writeSide(base int64, suffix string, b []byte) error {
	f, err := p.l.fs.Open(p.sidePath(base, suffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if len(b) > 0 {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// loadSides fills the open and aborted transactions as they were before the last segment. errSnapshot: they have to be
// found by walking over the segments.
func (p *partition) loadSides(bases []int64, r *replay) error {
	last := bases[len(bases)-1]
	b, err := vfs.ReadFile(p.l.fs, p.sidePath(last, snapshotSuffix), maxSideFile)
	if errors.Is(err, fs.ErrNotExist) {
		return errSnapshot
	}
	if err != nil {
		return err
	}
	open, sequences, err := decodeSnapshot(b)
	if err != nil {
		return err
	}
	for _, base := range bases[:len(bases)-1] {
		b, err := vfs.ReadFile(p.l.fs, p.sidePath(base, txnIndexSuffix), maxSideFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		list, err := decodeTxnIndex(b)
		if err != nil {
			return fmt.Errorf("%w: %w", errSnapshot, err)
		}
		for _, a := range list {
			r.aborts.add(a.pid, a.span.first, a.span.end)
		}
	}
	for pid, t := range open {
		r.open[pid] = t
	}
	for pid, s := range sequences {
		r.sequences[pid] = s
	}
	return nil
}

// dropSides removes snapshots of segments other than the last, and transaction indexes of segments that are gone. It is
// of no harm if they stay.
func (p *partition) dropSides(bases []int64) error {
	names, err := p.l.fs.List(p.dir)
	if err != nil {
		return err
	}
	kept := map[string]bool{segment.Name(bases[len(bases)-1], snapshotSuffix): true}
	for _, base := range bases {
		kept[segment.Name(base, txnIndexSuffix)] = true
	}
	var errs []error
	for _, name := range names {
		if (strings.HasSuffix(name, snapshotSuffix) || strings.HasSuffix(name, txnIndexSuffix)) && !kept[name] {
			errs = append(errs, p.l.fs.Remove(filepath.Join(p.dir, name)))
		}
	}
	return errors.Join(errs...)
}
