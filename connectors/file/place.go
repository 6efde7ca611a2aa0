package file

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// A position is {"v":1,"first":true,"tables":[…],"files":"BASE64"}. files holds for each file, in the order of the hashes:
//
//	8 bytes    the first bytes of SHA-256 of its name
//	8 bytes    likewise of its first and its last bytes (print)
//	uvarint    size: how many of its bytes that is about
//	uvarint    at: of a text, the bytes that were read, before compression; of Parquet, the rows
//	uvarint    lines that were read, twice, and one more if nothing is left (done)
//
// It grows by some 25 bytes with each file.

const positionVersion = 1

type position struct {
	Version int             `json:"v"`
	First   bool            `json:"first,omitempty"`
	Tables  json.RawMessage `json:"tables,omitempty"`
	Files   string          `json:"files"`
}

// name8 is the hash of a file's name.
type name8 [8]byte

func nameOf(name string) name8 { return hash8([]byte(name)) }

func hash8(parts ...[]byte) (out name8) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	copy(out[:], h.Sum(nil))
	return out
}

// place is how far a file was read.
type place struct {
	print name8
	size  int64
	at    int64
	lines int64
	done  bool
}

// places are those of all files that were read, also of some that are gone.
type places map[name8]place

var errPosition = fmt.Errorf("parse position: not one of this source: %w", connectors.ErrPositionLost)

func parsePosition(p connectors.Position) (places, position, error) {
	if p == nil {
		return places{}, position{First: true}, nil
	}
	var head position
	if err := json.Unmarshal(p, &head); err != nil || head.Version != positionVersion {
		return nil, head, errPosition
	}
	b, err := base64.StdEncoding.DecodeString(head.Files)
	if err != nil {
		return nil, head, errPosition
	}
	out := places{}
	for len(b) > 0 {
		if len(b) < 19 {
			return nil, head, errPosition
		}
		var name name8
		var pl place
		copy(name[:], b)
		copy(pl.print[:], b[8:])
		b = b[16:]
		for _, field := range []*int64{&pl.size, &pl.at, &pl.lines} {
			v, n := binary.Uvarint(b)
			if n <= 0 || v > 1<<62 {
				return nil, head, errPosition
			}
			*field, b = int64(v), b[n:]
		}
		pl.done, pl.lines = pl.lines&1 == 1, pl.lines>>1
		out[name] = pl
	}
	return out, head, nil
}

func (p places) format(first bool, tables []byte) (connectors.Position, error) {
	names := make([]name8, 0, len(p))
	for name := range p {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b name8) int { return slices.Compare(a[:], b[:]) })
	var b []byte
	for _, name := range names {
		pl := p[name]
		b = append(append(b, name[:]...), pl.print[:]...)
		b = binary.AppendUvarint(b, uint64(pl.size))
		b = binary.AppendUvarint(b, uint64(pl.at))
		lines := uint64(pl.lines) << 1
		if pl.done {
			lines |= 1
		}
		b = binary.AppendUvarint(b, lines)
	}
	out, err := json.Marshal(position{positionVersion, first, tables, base64.StdEncoding.EncodeToString(b)})
	if err != nil {
		return nil, fmt.Errorf("format position: %w", err)
	}
	return out, nil
}

// prune forgets files that are gone, once there are more than a position should hold. Until then they are kept, so that
// a directory that is not there for a moment is not read again.
func (p places) prune(there []input) {
	if len(p) <= maxFiles {
		return
	}
	names := make(map[name8]bool, len(there))
	for _, f := range there {
		names[nameOf(f.name)] = true
	}
	for name := range p {
		if !names[name] {
			delete(p, name)
		}
	}
}

// printBytes is how much of each end of a file is looked at.
const printBytes = 256

// printOf returns the hash of the first and the last bytes of the first size bytes of a file.
func printOf(r io.ReaderAt, size int64) (name8, error) {
	n := min(size, printBytes)
	head, tail := make([]byte, n), make([]byte, n)
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return name8{}, err
	}
	if _, err := r.ReadAt(tail, size-n); err != nil && !errors.Is(err, io.EOF) {
		return name8{}, err
	}
	return hash8(head, tail), nil
}
