package sqlite

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/trunkline/trunkline/connectors"
)

// A position is a JSON object: {"v":1,"tables":{"orders":{"cursor":"updated_at","at":["t2026-01-30 12:00:00","i7"]}}}.
//
// A cell is a value with its storage class as the first letter, because SQLite orders by class first and a cursor that
// comes back as another class would jump:
//
//	i-5          INTEGER, decimal
//	r3ff0…       REAL, the 64 bits as hexadecimal digits
//	ttext        TEXT that is UTF-8
//	uBASE64      TEXT that is not
//	bBASE64      BLOB

const positionVersion = 1

type position struct {
	Version int               `json:"v"`
	Tables  map[string]*place `json:"tables"`
}

// place is how far a table was read.
type place struct {
	Cursor   string   `json:"cursor"`             // the column that At is of; another one starts the table anew
	Snapshot bool     `json:"snapshot,omitempty"` // the first extract is not finished
	Nulls    bool     `json:"nulls,omitempty"`    // it is still at the rows whose cursor is NULL
	At       []string `json:"at,omitempty"`       // the last row read: its cursor (not while at Nulls) and tie columns
	Seen     string   `json:"seen,omitempty"`     // hashes of the rows that were read with the last cursor value
	Ahead    string   `json:"ahead,omitempty"`    // hashes of the rows that were read with a cursor in the future
	Keys     string   `json:"keys,omitempty"`     // deletes: detect: the set of keys that are known
	Looked   int64    `json:"looked,omitempty"`   // likewise: when they were compared last, in microseconds since 1970
	Until    string   `json:"until,omitempty"`    // rows up to here are not ahead: they were read before the clock was set back
	Local    bool     `json:"local,omitempty"`    // the cursor is no time in UTC
}

func parsePosition(p connectors.Position) (map[string]*place, error) {
	if p == nil {
		return map[string]*place{}, nil
	}
	var out position
	if err := json.Unmarshal(p, &out); err != nil || out.Version != positionVersion {
		return nil, fmt.Errorf("parse position: not one of this source: %w", connectors.ErrPositionLost)
	}
	for _, pl := range out.Tables {
		if pl == nil {
			return nil, fmt.Errorf("parse position: a table without a place: %w", connectors.ErrPositionLost)
		}
		for _, c := range pl.At {
			if _, err := parseCell(c); err != nil {
				return nil, fmt.Errorf("parse position: %w: %w", err, connectors.ErrPositionLost)
			}
		}
	}
	if out.Tables == nil {
		out.Tables = map[string]*place{}
	}
	return out.Tables, nil
}

func formatPosition(tables map[string]*place) (connectors.Position, error) {
	p, err := json.Marshal(position{positionVersion, tables})
	if err != nil {
		return nil, fmt.Errorf("format position: %w", err)
	}
	return p, nil
}

// appendCell appends a value that the driver returned.
func appendCell(dst []byte, v any) []byte {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(append(dst, 'i'), v, 10)
	case float64:
		return strconv.AppendUint(append(dst, 'r'), math.Float64bits(v), 16)
	case string:
		if utf8.ValidString(v) {
			return append(append(dst, 't'), v...)
		}
		return base64.StdEncoding.AppendEncode(append(dst, 'u'), []byte(v))
	case []byte:
		return base64.StdEncoding.AppendEncode(append(dst, 'b'), v)
	default:
		return append(dst, 'n')
	}
}

var errCell = errors.New("not a value with its storage class")

// parseCell returns the value as the driver binds it.
func parseCell(c string) (any, error) {
	if c == "" {
		return nil, errCell
	}
	switch class, text := c[0], c[1:]; class {
	case 'i':
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errCell
		}
		return n, nil
	case 'r':
		n, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return nil, errCell
		}
		return math.Float64frombits(n), nil
	case 't':
		return text, nil
	case 'u', 'b':
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, errCell
		}
		if class == 'u' {
			return string(b), nil
		}
		return b, nil
	case 'n':
		return nil, nil
	}
	return nil, errCell
}

// maxSeen bounds the rows of one cursor value that are remembered; more of them are read once, by key.
const maxSeen = 1000

// tooMany stands for a set that outgrew maxSeen.
const tooMany = "*"

// seen is a set of hashes of rows that share one cursor value.
type seen struct {
	hashes   map[uint64]struct{}
	overflow bool
}

func parseSeen(text string) *seen {
	s := &seen{hashes: map[uint64]struct{}{}, overflow: text == tooMany}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return s
	}
	for ; len(b) >= 8; b = b[8:] {
		s.hashes[binary.LittleEndian.Uint64(b)] = struct{}{}
	}
	return s
}

func (s *seen) reset() {
	clear(s.hashes)
	s.overflow = false
}

// add reports whether the hash is new.
func (s *seen) add(h uint64) bool {
	if _, ok := s.hashes[h]; ok {
		return false
	}
	if len(s.hashes) >= maxSeen {
		clear(s.hashes)
		s.overflow = true
	}
	if !s.overflow {
		s.hashes[h] = struct{}{}
	}
	return true
}

func (s *seen) String() string {
	if s.overflow {
		return tooMany
	}
	b := make([]byte, 0, 8*len(s.hashes))
	for h := range s.hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return base64.StdEncoding.EncodeToString(b)
}
