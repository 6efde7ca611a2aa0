package reconcile

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"math/big"
	"slices"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

// hasher hashes rows. Two ends of one dialect have equal values in equal form. Between dialects a value is brought into
// the form that both can be written in: numbers by their value, times without the marks of a zone and the zeros at the
// end, truth values as numbers, JSON documents with their members in order.
type hasher struct {
	c     *comparison
	text  []byte
	parts []uint64
}

func newHasher(c *comparison) *hasher { return &hasher{c: c} }

// row hashes all columns.
func (h *hasher) row(row []connectors.Value) uint64 {
	h.text = h.text[:0]
	for i, v := range row {
		h.add(i, v)
	}
	return maphash.Bytes(h.c.seed, h.text)
}

// columns hashes each column for itself. The result is valid until the next call.
func (h *hasher) columns(row []connectors.Value) []uint64 {
	h.parts = h.parts[:0]
	for i, v := range row {
		h.text = h.text[:0]
		h.add(i, v)
		h.parts = append(h.parts, maphash.Bytes(h.c.seed, h.text))
	}
	return h.parts
}

// key is the form of a row's key. It is valid until the next call.
func (h *hasher) key(row []connectors.Value) []byte {
	h.text = h.text[:0]
	for i := range h.c.key {
		h.add(i, row[i])
	}
	return h.text
}

func (h *hasher) bucket(row []connectors.Value) int {
	return int(maphash.Bytes(h.c.seed, h.key(row)) % connectors.Buckets)
}

// add appends the form of a value: 0 for NULL, else 1, the form and its length.
func (h *hasher) add(i int, v connectors.Value) {
	if v.IsNull() || v.IsAbsent() {
		h.text = append(h.text, 0)
		return
	}
	h.text = append(h.text, 1)
	start := len(h.text)
	if h.c.same {
		h.text = v.AppendText(h.text)
	} else {
		h.text = appendForm(h.text, h.c.kinds[i], v)
	}
	h.text = append(h.text, ':')
	h.text = strconv.AppendInt(h.text, int64(len(h.text)-start), 10)
}

// appendForm appends the common form of a value whose column is of that kind at the source.
func appendForm(dst []byte, kind connectors.Kind, v connectors.Value) []byte {
	start := len(dst)
	dst = v.AppendText(dst)
	text := dst[start:]
	switch kind {
	case connectors.Bool:
		switch string(text) {
		case "true", "t":
			return append(dst[:start], '1')
		case "false", "f":
			return append(dst[:start], '0')
		}
	case connectors.Int, connectors.Uint, connectors.Decimal, connectors.Float:
		return append(dst[:start], number(text)...)
	case connectors.Timestamp, connectors.TimestampTZ, connectors.Time:
		return append(dst[:start], moment(text)...)
	case connectors.JSON, connectors.Array, connectors.Map:
		return append(dst[:start], document(text)...)
	}
	return dst
}

// number writes a number by its value. What is no number (NaN, Infinity) stays.
func number(text []byte) []byte {
	if bytes.ContainsAny(text, "eE") {
		if r, ok := new(big.Rat).SetString(string(text)); ok && len(text) < 64 {
			return []byte(r.RatString())
		}
		return text
	}
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	if len(digits) == 0 || digits[0] < '0' || digits[0] > '9' {
		return text
	}
	if bytes.IndexByte(digits, '.') >= 0 {
		digits = bytes.TrimRight(bytes.TrimRight(digits, "0"), ".")
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 || digits[0] == '.' {
		digits = append([]byte("0"), digits...)
	}
	if negative && !bytes.Equal(digits, []byte("0")) {
		return append([]byte("-"), digits...)
	}
	return slices.Clone(digits)
}

// moment writes a time of day or a timestamp without what only its type adds.
func moment(text []byte) []byte {
	out := bytes.TrimSuffix(slices.Clone(text), []byte("Z"))
	if i := bytes.IndexByte(out, 'T'); i > 0 {
		out[i] = ' '
	}
	if bytes.IndexByte(out, '.') >= 0 {
		out = bytes.TrimRight(bytes.TrimRight(out, "0"), ".")
	}
	return out
}

// document writes a JSON document without the freedom of its form.
func document(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil || decoder.More() {
		return text
	}
	out, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return out
}
