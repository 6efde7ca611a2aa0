package transform

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimal is an exact number: digits / 10^scale. NaN and the infinities are forms of their own, ordered as PostgreSQL
// does it: -Infinity, the numbers, Infinity, NaN.
type decimal struct {
	digits *big.Int
	scale  int
	form   int // 0 finite, -1 and 1 the infinities, 2 NaN
}

// maxScale bounds the digits behind the point, so that an exponent in a text cannot ask for all memory.
const maxScale = 1 << 15

var ten = big.NewInt(10)

func pow10(n int) *big.Int { return new(big.Int).Exp(ten, big.NewInt(int64(n)), nil) }

func decimalOfInt(i int) decimal { return decimal{digits: big.NewInt(int64(i))} }

// parseDecimal reads canonical text, with an exponent too.
func parseDecimal(text string) (decimal, error) {
	switch text {
	case "NaN":
		return decimal{form: 2}, nil
	case "Infinity":
		return decimal{form: 1}, nil
	case "-Infinity":
		return decimal{form: -1}, nil
	}
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil {
			return decimal{}, errNoNumber
		}
		mantissa, exponent = text[:i], n
	}
	whole, part, _ := strings.Cut(mantissa, ".")
	digits, ok := new(big.Int), false
	if plain(whole + part) {
		digits, ok = digits.SetString(whole+part, 10)
	}
	scale := len(part) - exponent
	if !ok || scale > maxScale || scale < -maxScale {
		return decimal{}, errNoNumber
	}
	if scale < 0 {
		return decimal{digits: digits.Mul(digits, pow10(-scale))}, nil
	}
	return decimal{digits: digits, scale: scale}, nil
}

var errNoNumber = errors.New("is not a number")

// plain reports a run of digits, perhaps with a sign: what big.Int takes beyond that (0x, underscores) is no number here.
func plain(text string) bool {
	text = strings.TrimLeft(text, "+-")
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func decimalOfFloat(f float64) decimal {
	switch {
	case math.IsNaN(f):
		return decimal{form: 2}
	case math.IsInf(f, 1):
		return decimal{form: 1}
	case math.IsInf(f, -1):
		return decimal{form: -1}
	}
	d, _ := parseDecimal(strconv.FormatFloat(f, 'g', -1, 64))
	return d
}

// String is the canonical text.
func (d decimal) String() string {
	switch d.form {
	case 2:
		return "NaN"
	case 1:
		return "Infinity"
	case -1:
		return "-Infinity"
	}
	text := new(big.Int).Abs(d.digits).String()
	if d.scale > 0 {
		if len(text) <= d.scale {
			text = strings.Repeat("0", d.scale-len(text)+1) + text
		}
		text = text[:len(text)-d.scale] + "." + text[len(text)-d.scale:]
	}
	if d.digits.Sign() < 0 {
		return "-" + text
	}
	return text
}

// align gives two finite numbers one scale.
func align(a, b decimal) (x, y *big.Int, scale int) {
	scale = max(a.scale, b.scale)
	x, y = a.digits, b.digits
	if a.scale < scale {
		x = new(big.Int).Mul(x, pow10(scale-a.scale))
	}
	if b.scale < scale {
		y = new(big.Int).Mul(y, pow10(scale-b.scale))
	}
	return x, y, scale
}

func (d decimal) compare(o decimal) int {
	if d.form != 0 || o.form != 0 {
		return d.form - o.form
	}
	x, y, _ := align(d, o)
	return x.Cmp(y)
}

var errSpecial = errors.New("arithmetic with NaN or infinity")

func (d decimal) arithmetic(op string, o decimal) (decimal, error) {
	if d.form != 0 || o.form != 0 {
		return decimal{}, errSpecial
	}
	x, y, scale := align(d, o)
	switch op {
	case "+":
		return decimal{digits: new(big.Int).Add(x, y), scale: scale}, nil
	case "-":
		return decimal{digits: new(big.Int).Sub(x, y), scale: scale}, nil
	case "*":
		if d.scale+o.scale > maxScale {
			return decimal{}, errors.New("a number with too many digits")
		}
		return decimal{digits: new(big.Int).Mul(d.digits, o.digits), scale: d.scale + o.scale}, nil
	case "%":
		if y.Sign() == 0 {
			return decimal{}, errDivision
		}
		return decimal{digits: new(big.Int).Rem(x, y), scale: scale}, nil
	}
	return decimal{}, errors.New("a quotient of exact numbers needs its digits: div(a, b, 2)")
}

var errDivision = errors.New("division by zero")

// div divides and rounds half away from zero to so many digits.
func (d decimal) div(o decimal, scale int) (decimal, error) {
	if d.form != 0 || o.form != 0 {
		return decimal{}, errSpecial
	}
	if o.digits.Sign() == 0 {
		return decimal{}, errDivision
	}
	x, y, _ := align(d, o)
	return decimal{digits: quotient(new(big.Int).Mul(x, pow10(scale)), y), scale: scale}, nil
}

// round rounds half away from zero to so many digits.
func (d decimal) round(scale int) decimal {
	switch {
	case d.form != 0 || d.scale == scale:
		return d
	case d.scale < scale:
		return decimal{digits: new(big.Int).Mul(d.digits, pow10(scale-d.scale)), scale: scale}
	}
	return decimal{digits: quotient(d.digits, pow10(d.scale-scale)), scale: scale}
}

func quotient(x, y *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	if twice := new(big.Int).Abs(r); twice.Lsh(twice, 1).CmpAbs(y) >= 0 {
		q.Add(q, big.NewInt(int64(x.Sign()*y.Sign())))
	}
	return q
}
