package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"strconv"
)

// appendDouble writes a number as Java does: 0.1, 1.0E21; at least one digit stands behind the point. text is a number of
// JSON, or NaN and the infinities, which become strings. bits is 32 or 64.
// false: the text is neither.
func appendDouble(dst, text []byte, bits int) ([]byte, bool) {
	f, err := strconv.ParseFloat(string(text), bits)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is infinite
		return dst, false
	}
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...), true
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...), true
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...), true
	}
	return appendJava(dst, f, bits), true
}

// appendJava lays out a finite number.
func appendJava(dst []byte, f float64, bits int) []byte {
	if size := math.Abs(f); size == 0 || size >= 1e-3 && size < 1e7 {
		start := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	var room [32]byte
	mantissa, exponent, _ := bytes.Cut(strconv.AppendFloat(room[:0], f, 'e', -1, bits), []byte{'e'})
	dst = append(dst, mantissa...)
	if bytes.IndexByte(mantissa, '.') < 0 {
		dst = append(dst, ".0"...)
	}
	n, _ := strconv.Atoi(string(exponent))
	return strconv.AppendInt(append(dst, 'E'), int64(n), 10)
}

// appendUnscaled appends base64 of the digits of a decimal without its point, in two's complement, and returns how many
// of them stood behind the point: scale, or, if that is below zero, as many as are left when zeros at the end are taken
// off. false: the text is no number.
func appendUnscaled(dst, text []byte, scale int) (out []byte, used int, ok bool) {
	whole, fraction, _ := bytes.Cut(text, []byte{'.'})
	if scale < 0 {
		fraction = bytes.TrimRight(fraction, "0")
		scale = len(fraction)
	}
	fraction = fraction[:min(len(fraction), scale)]
	if len(whole)+scale <= 18 {
		n, ok := smallNumber(whole, fraction, scale)
		return appendTwos(dst, n), scale, ok
	}
	digits := make([]byte, 0, len(whole)+scale)
	digits = append(append(digits, whole...), fraction...)
	for range scale - len(fraction) {
		digits = append(digits, '0')
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return dst, scale, false
	}
	return appendLarge(dst, n), scale, true
}

// smallNumber reads digits that an int64 holds.
func smallNumber(whole, fraction []byte, scale int) (n int64, ok bool) {
	negative := len(whole) > 0 && whole[0] == '-'
	if negative {
		whole = whole[1:]
	}
	for _, part := range [...][]byte{whole, fraction} {
		for _, c := range part {
			if c-'0' > 9 {
				return 0, false
			}
			n = n*10 + int64(c-'0')
		}
	}
	for range scale - len(fraction) {
		n *= 10
	}
	if negative {
		n = -n
	}
	return n, len(whole) > 0
}

// appendTwos appends base64 of a number in two's complement, big-endian, in as few bytes as it needs.
func appendTwos(dst []byte, n int64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	start := 0
	for start < 7 && (b[start] == 0 && b[start+1] < 0x80 || b[start] == 0xff && b[start+1] >= 0x80) {
		start++
	}
	return base64.StdEncoding.AppendEncode(dst, b[start:])
}

// appendLarge is appendTwos for a number of any size.
func appendLarge(dst []byte, n *big.Int) []byte {
	size := n.BitLen()/8 + 1
	if n.Sign() < 0 {
		size = new(big.Int).Not(n).BitLen()/8 + 1
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(size*8)))
	}
	return base64.StdEncoding.AppendEncode(dst, n.FillBytes(make([]byte, size)))
}

// appendLittleEndian appends base64 of 10101 as bytes, the last digit first: all of them, or as many as the highest 1 needs.
func appendLittleEndian(dst, bits []byte, all bool) []byte {
	var room [64]byte
	out := room[:]
	if size := (len(bits) + 7) / 8; size > len(room) {
		out = make([]byte, size)
	} else {
		out = out[:size]
	}
	last := 0
	for i, b := range bits {
		if b == '1' {
			at := len(bits) - 1 - i
			out[at/8] |= 1 << (at % 8)
			last = max(last, at/8+1)
		}
	}
	if !all {
		out = out[:last]
	}
	return base64.StdEncoding.AppendEncode(dst, out)
}
