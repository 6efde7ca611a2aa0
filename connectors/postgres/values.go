package postgres

import (
	"bytes"
	"encoding/hex"

	"github.com/trunkline/trunkline/connectors"
)

// form is how the text of a type becomes a value. One form serves snapshot and stream alike.
type form uint8

const (
	formText form = iota // as it is, under the decoder's kind
	formBool
	formInt // also oid, xid, cid: what fits 64 bits with a sign
	formUint
	formFloat
	formMoney
	formBytea
	formTimestamp
	formTimestampTZ
	formArray
	formHstore
	formEnum
)

// decoder makes values of one type from the database's text. It never fails: text that is not in the form that it
// expects becomes a value of kind Text, so that nothing is lost and nothing stops.
type decoder struct {
	kind  connectors.Kind
	form  form
	elem  *decoder // of an array
	delim byte     // between the elements of an array

	labels map[string]bool // of an enum
}

var textDecoder = &decoder{kind: connectors.Text}

// Type oids that PostgreSQL fixes in pg_type.dat. Types without an entry are text, unless the catalog says that
// they are arrays, domains or hstore.
var builtin = map[uint32]*decoder{
	16:   {kind: connectors.Bool, form: formBool},
	17:   {kind: connectors.Bytes, form: formBytea},
	20:   {kind: connectors.Int, form: formInt},   // int8
	21:   {kind: connectors.Int, form: formInt},   // int2
	23:   {kind: connectors.Int, form: formInt},   // int4
	26:   {kind: connectors.Int, form: formInt},   // oid
	28:   {kind: connectors.Int, form: formInt},   // xid
	29:   {kind: connectors.Int, form: formInt},   // cid
	5069: {kind: connectors.Uint, form: formUint}, // xid8
	114:  {kind: connectors.JSON},
	3802: {kind: connectors.JSON}, // jsonb
	700:  {kind: connectors.Float, form: formFloat},
	701:  {kind: connectors.Float, form: formFloat},
	790:  {kind: connectors.Decimal, form: formMoney},
	1700: {kind: connectors.Decimal},
	1082: {kind: connectors.Date},
	1083: {kind: connectors.Time},
	1266: {kind: connectors.Time}, // timetz
	1114: {kind: connectors.Timestamp, form: formTimestamp},
	1184: {kind: connectors.TimestampTZ, form: formTimestampTZ},
	1186: {kind: connectors.Interval},
	1560: {kind: connectors.Bits}, // bit
	1562: {kind: connectors.Bits}, // varbit
}

// value decodes text. The value's bytes are in the arena of r.
func (d *decoder) value(r *rows, text []byte) connectors.Value {
	switch d.form {
	case formText:
		return connectors.DataValue(d.kind, r.keep(text))
	case formBool:
		if len(text) == 1 {
			return connectors.BoolValue(text[0] == 't')
		}
	case formInt:
		if n, ok := parseInt(text); ok {
			return connectors.IntValue(n)
		}
	case formUint:
		if n, ok := parseUint(text); ok {
			return connectors.UintValue(n)
		}
	case formFloat:
		if len(text) == 2 && text[0] == '-' && text[1] == '0' {
			return connectors.DataValue(connectors.Float, r.keep(negativeZero))
		}
		return connectors.DataValue(connectors.Float, r.keep(text))
	case formMoney:
		return r.money(text)
	case formBytea:
		if data, ok := r.bytea(text); ok {
			return connectors.DataValue(connectors.Bytes, data)
		}
	case formEnum:
		r.strange = r.strange || !d.labels[string(text)]
	case formTimestamp:
		return r.timestamp(connectors.Timestamp, text, nil)
	case formTimestampTZ:
		return r.timestamp(connectors.TimestampTZ, text, utcSuffix)
	case formArray:
		start := len(r.arena)
		if dst, ok := d.appendArray(r.arena, text); ok {
			r.arena = dst
			return connectors.DataValue(connectors.Array, r.since(start))
		}
	case formHstore:
		start := len(r.arena)
		if dst, ok := appendHstore(r.arena, text); ok {
			r.arena = dst
			return connectors.DataValue(connectors.Map, r.since(start))
		}
	}
	return connectors.DataValue(connectors.Text, r.keep(text))
}

var (
	negativeZero = []byte("-0.0")
	utcSuffix    = []byte("+00")
)

func parseInt(text []byte) (int64, bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	n, ok := parseUint(text)
	if negative {
		return -int64(n), ok && n <= 1<<63
	}
	return int64(n), ok && n < 1<<63
}

func parseUint(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		digit := uint64(c - '0')
		if digit > 9 || n > (1<<64-1-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// money leaves out what lc_monetary C adds to the digits: -$1,234.50 is -1234.50.
func (r *rows) money(text []byte) connectors.Value {
	start := len(r.arena)
	for _, c := range text {
		if c != '$' && c != ',' {
			r.arena = append(r.arena, c)
		}
	}
	return connectors.DataValue(connectors.Decimal, r.since(start))
}

// bytea decodes the hex format: \x0a0b.
func (r *rows) bytea(text []byte) ([]byte, bool) {
	if len(text) < 2 || len(text)%2 != 0 || text[0] != '\\' || text[1] != 'x' {
		return nil, false
	}
	start := len(r.arena)
	dst, err := hex.AppendDecode(r.arena, text[2:])
	if err != nil {
		return nil, false
	}
	r.arena = dst
	return r.since(start), true
}

// timestamp turns 2026-01-30 12:34:56.5 and, with suffix, 2026-01-30 12:34:56.5+00 into ISO 8601. Years of more than
// four digits, BC and infinity stay the database's text.
func (r *rows) timestamp(kind connectors.Kind, text, suffix []byte) connectors.Value {
	digits, ok := bytes.CutSuffix(text, suffix)
	if !ok || len(digits) < 19 || digits[4] != '-' || digits[10] != ' ' || digits[len(digits)-1] > '9' {
		return connectors.DataValue(kind, r.keep(text))
	}
	start := len(r.arena)
	r.arena = append(r.arena, digits...)
	r.arena[start+10] = 'T'
	if suffix != nil {
		r.arena = append(r.arena, 'Z')
	}
	return connectors.DataValue(kind, r.since(start))
}
