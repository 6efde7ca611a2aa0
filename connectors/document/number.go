package document

import (
	"bytes"
	"math"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

// exactInts is the largest whole number up to which a float holds all of them.
const exactInts = 1 << 53

// maxExponent bounds the zeros that a number gets when its exponent is written out.
const maxExponent = 400

// numberKind returns the narrowest kind that holds a JSON number: Int, Float, Decimal, and JSON for one whose exponent is
// beyond all.
func numberKind(token []byte) connectors.Kind {
	if !bytes.ContainsAny(token, ".eE") {
		if _, err := strconv.ParseInt(string(token), 10, 64); err == nil {
			return connectors.Int
		}
		return connectors.Decimal
	}
	if isFloat(token) {
		return connectors.Float
	}
	if _, ok := plain(nil, token); ok {
		return connectors.Decimal
	}
	return connectors.JSON
}

// isFloat reports that a float of 64 bits prints as the same number.
func isFloat(token []byte) bool {
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return false
	}
	a, okA := normal(token)
	b, okB := normal(strconv.AppendFloat(nil, f, 'e', -1, 64))
	return okA && okB && a == b
}

// number is a number as its digits, without zeros at either end, and the power of ten of the last one.
type number struct {
	negative bool
	digits   string
	power    int
}

// normal reads a number in JSON's syntax.
func normal(token []byte) (number, bool) {
	var n number
	if len(token) > 0 && token[0] == '-' {
		n.negative, token = true, token[1:]
	}
	if i := bytes.IndexAny(token, "eE"); i >= 0 {
		power, err := strconv.Atoi(string(token[i+1:]))
		if err != nil {
			return n, false
		}
		n.power, token = power, token[:i]
	}
	whole, part, _ := bytes.Cut(token, []byte{'.'})
	digits := append(bytes.Clone(whole), part...)
	n.power -= len(part)
	if len(digits) == 0 || len(bytes.Trim(digits, "0123456789")) > 0 {
		return n, false
	}
	short := bytes.TrimRight(digits, "0")
	n.power += len(digits) - len(short)
	n.digits = string(bytes.TrimLeft(short, "0"))
	if n.digits == "" {
		n.power = 0
	}
	return n, true
}

// float appends the shortest text of a number, as a value of kind Float has it.
func float(dst, token []byte) ([]byte, bool) {
	f, err := strconv.ParseFloat(string(token), 64)
	switch {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f):
		return dst, false
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...), true
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64), true
}

// plain appends a number without an exponent, its digits and its scale as they are.
func plain(dst, token []byte) ([]byte, bool) {
	i := bytes.IndexAny(token, "eE")
	if i < 0 {
		_, ok := normal(token)
		return append(dst, token...), ok
	}
	n, ok := normal(token)
	if !ok || n.power > maxExponent || n.power < -maxExponent {
		return dst, false
	}
	if n.negative {
		dst = append(dst, '-')
	}
	if n.digits == "" {
		return append(dst, '0'), true
	}
	point := len(n.digits) + n.power // where it stands in the digits
	switch {
	case point <= 0:
		dst = append(append(dst, "0."...), bytes.Repeat([]byte{'0'}, -point)...)
		dst = append(dst, n.digits...)
	case n.power < 0:
		dst = append(append(append(dst, n.digits[:point]...), '.'), n.digits[point:]...)
	default:
		dst = append(append(dst, n.digits...), bytes.Repeat([]byte{'0'}, n.power)...)
	}
	return dst, true
}
