package mysql

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"

	"github.com/trunkline/trunkline/connectors"
)

// Types of columns in the binary log (include/mysql_com.h, field_types.h of both servers).
const (
	typeTiny              = 1
	typeShort             = 2
	typeLong              = 3
	typeFloat             = 4
	typeDouble            = 5
	typeTimestamp         = 7
	typeLongLong          = 8
	typeInt24             = 9
	typeDate              = 10
	typeTime              = 11
	typeDateTime          = 12
	typeYear              = 13
	typeNewDate           = 14
	typeVarchar           = 15
	typeBit               = 16
	typeTimestamp2        = 17
	typeDateTime2         = 18
	typeTime2             = 19
	typeBlobCompressed    = 140 // MariaDB
	typeVarcharCompressed = 141 // MariaDB
	typeVector            = 242
	typeJSON              = 245
	typeNewDecimal        = 246
	typeEnum              = 247
	typeSet               = 248
	typeTinyBlob          = 249
	typeMediumBlob        = 250
	typeLongBlob          = 251
	typeBlob              = 252
	typeVarString         = 253
	typeString            = 254
	typeGeometry          = 255
)

// errRow: a row that is not what its table map says. It never comes from a healthy log.
var errRow = errors.New("row does not match the description of its table")

// wireColumn is a column as a table map event describes it: what decides how many bytes a value has.
type wireColumn struct {
	typ  byte
	meta uint16
}

// binlog decodes one value that is not null and returns the bytes behind it.
func (d *decoder) binlog(r *rows, w wireColumn, b []byte) (connectors.Value, []byte, error) {
	data, rest, err := d.split(w, b)
	if err != nil {
		return connectors.Value{}, nil, err
	}
	v, err := d.value(r, w, data)
	return v, rest, err
}

// split cuts the bytes of one value off.
func (d *decoder) split(w wireColumn, b []byte) (data, rest []byte, err error) {
	n, prefix := 0, 0
	switch w.typ {
	case typeTiny, typeYear:
		n = 1
	case typeShort:
		n = 2
	case typeInt24, typeDate, typeNewDate:
		n = 3
	case typeLong, typeFloat:
		n = 4
	case typeLongLong, typeDouble:
		n = 8
	case typeTimestamp:
		n = 4 + oldFraction[d.scale%7]
	case typeTime:
		n = oldTime[d.scale%7]
	case typeDateTime:
		n = oldDateTime[d.scale%7]
	case typeTimestamp2:
		n = 4 + (int(w.meta)+1)/2
	case typeDateTime2:
		n = 5 + (int(w.meta)+1)/2
	case typeTime2:
		n = 3 + (int(w.meta)+1)/2
	case typeNewDecimal:
		n = decimalSize(int(w.meta>>8), int(w.meta&0xff))
	case typeBit:
		n = int(w.meta>>8) + (int(w.meta&0xff)+7)/8
	case typeEnum, typeSet:
		n = int(w.meta & 0xff)
	case typeVarchar, typeVarString, typeVarcharCompressed:
		prefix = 1
		if w.meta > 255 {
			prefix = 2
		}
	case typeString:
		prefix = 1
		if stringLength(w.meta) > 255 {
			prefix = 2
		}
	case typeBlob, typeTinyBlob, typeMediumBlob, typeLongBlob, typeJSON, typeGeometry, typeBlobCompressed, typeVector:
		prefix = int(w.meta)
	default:
		return nil, nil, fmt.Errorf("type %d of the binary log is not known", w.typ)
	}
	if prefix > 0 {
		if prefix > 4 || len(b) < prefix {
			return nil, nil, errRow
		}
		for i := range prefix {
			n |= int(b[i]) << (8 * i)
		}
		b = b[prefix:]
	}
	if n < 0 || len(b) < n {
		return nil, nil, errRow
	}
	return b[:n], b[n:], nil
}

// stringLength is the length of a CHAR: two bits of it hide in the type's byte, upside down.
func stringLength(meta uint16) int { return int(meta&0xff) | int(^(meta>>4)&0x300) }

// value decodes the bytes of one value.
func (d *decoder) value(r *rows, w wireColumn, data []byte) (connectors.Value, error) {
	switch w.typ {
	case typeTiny, typeShort, typeInt24, typeLong, typeLongLong:
		return d.integer(data), nil
	case typeYear:
		if data[0] == 0 {
			return connectors.IntValue(0), nil
		}
		return connectors.IntValue(1900 + int64(data[0])), nil
	case typeFloat:
		return d.float(r, float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))), nil
	case typeDouble:
		return d.float(r, math.Float64frombits(binary.LittleEndian.Uint64(data))), nil
	case typeNewDecimal:
		return r.decimal(data, int(w.meta>>8), int(w.meta&0xff))
	case typeBit:
		return d.bits(r, data), nil
	case typeDate, typeNewDate, typeTime, typeDateTime, typeTimestamp, typeTime2, typeDateTime2, typeTimestamp2:
		return d.temporal(r, w, data), nil
	case typeEnum:
		return d.enum(r, littleEndian(data))
	case typeSet:
		return d.set(r, littleEndian(data))
	case typeJSON:
		return r.binaryJSON(data)
	case typeVarcharCompressed, typeBlobCompressed:
		plain, err := inflate(data)
		if err != nil {
			return connectors.Value{}, err
		}
		data = plain
	}
	return d.bytes(r, data), nil
}

func littleEndian(data []byte) uint64 {
	var n uint64
	for i, c := range data {
		n |= uint64(c) << (8 * i)
	}
	return n
}

func (d *decoder) integer(data []byte) connectors.Value {
	n := littleEndian(data)
	if d.form == formUint {
		return d.unsigned(n)
	}
	shift := 64 - 8*len(data)
	return connectors.IntValue(int64(n<<shift) >> shift)
}

func (d *decoder) enum(r *rows, n uint64) (connectors.Value, error) {
	if n > uint64(len(d.typ.labels)) {
		return connectors.Value{}, fmt.Errorf("%w: an enum has more labels than are known", errRow)
	}
	start := len(r.arena)
	if n > 0 {
		r.arena = append(r.arena, d.typ.labels[n-1]...)
	}
	return connectors.DataValue(connectors.Text, r.since(start)), nil
}

func (d *decoder) set(r *rows, bits uint64) (connectors.Value, error) {
	if len(d.typ.labels) < 64 && bits>>len(d.typ.labels) != 0 {
		return connectors.Value{}, fmt.Errorf("%w: a set has more labels than are known", errRow)
	}
	start := len(r.arena)
	for i, label := range d.typ.labels {
		if bits>>i&1 == 0 {
			continue
		}
		if len(r.arena) > start {
			r.arena = append(r.arena, ',')
		}
		r.arena = append(r.arena, label...)
	}
	return connectors.DataValue(connectors.Text, r.since(start)), nil
}

// bytes decodes what the log has as a string: text, bytes, and MariaDB's types that are strings of a fixed length, whose
// trailing zeros the log cuts off.
func (d *decoder) bytes(r *rows, data []byte) connectors.Value {
	start := len(r.arena)
	switch d.form {
	case formText:
		r.arena = d.charset.append(r.arena, data)
		return connectors.DataValue(d.kind, r.since(start))
	case formUUID:
		r.arena = appendUUID(r.arena, data)
		return connectors.DataValue(connectors.Text, r.since(start))
	case formInet4, formInet6:
		r.arena = appendInet(r.arena, data, d.form == formInet4)
		return connectors.DataValue(connectors.Text, r.since(start))
	}
	r.arena = append(r.arena, data...)
	if d.typ.base == "binary" {
		for n := len(data); n < max(d.typ.a, 1); n++ {
			r.arena = append(r.arena, 0)
		}
	}
	return connectors.DataValue(connectors.Bytes, r.since(start))
}

const hexDigits = "0123456789abcdef"

// appendUUID appends the text of a UUID, which the binary log has in the order of its text.
func appendUUID(dst, data []byte) []byte {
	var u [16]byte
	copy(u[:], data)
	for i, b := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

// appendInet appends an address as the server writes it: the low four bytes with dots behind ::ffff: and where only they
// are set.
func appendInet(dst, data []byte, four bool) []byte {
	var a [16]byte
	copy(a[:], data)
	if four {
		return netip.AddrFrom4([4]byte(a[:4])).AppendTo(dst)
	}
	addr := netip.AddrFrom16(a)
	zero := 0
	for zero < 16 && a[zero] == 0 {
		zero++
	}
	if zero >= 12 && zero < 14 { // compatible with version 4
		dst = append(dst, "::"...)
		return netip.AddrFrom4([4]byte(a[12:])).AppendTo(dst)
	}
	return addr.AppendTo(dst)
}

// inflate undoes MariaDB's column compression:
//
//	method:1 nibble (0 none, 8 zlib), then 1 bit that says there is no zlib header, 3 bits: bytes of the length
//	length of the plain data, big-endian
//	deflated data
func inflate(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	head, body := data[0], data[1:]
	if head>>4 == 0 {
		return body, nil
	}
	digits := int(head & 7)
	if head>>4 != 8 || len(body) < digits {
		return nil, fmt.Errorf("%w: compressed column of an unknown method", errRow)
	}
	size := 0
	for _, c := range body[:digits] {
		size = size<<8 | int(c)
	}
	var src io.Reader = bytes.NewReader(body[digits:])
	var err error
	if head&8 != 0 {
		src = flate.NewReader(src)
	} else if src, err = zlib.NewReader(src); err != nil {
		return nil, fmt.Errorf("%w: compressed column: %w", errRow, err)
	}
	var out bytes.Buffer
	if n, err := io.Copy(&out, io.LimitReader(src, int64(size)+1)); err != nil || n != int64(size) {
		return nil, fmt.Errorf("%w: compressed column has another length than it says", errRow)
	}
	return out.Bytes(), nil
}

// digitBytes is how many bytes a group of up to nine digits takes.
var digitBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

func decimalSize(precision, scale int) int {
	whole := precision - scale
	if whole < 0 {
		return -1
	}
	return whole/9*4 + digitBytes[whole%9] + scale/9*4 + digitBytes[scale%9]
}

// decimal decodes groups of nine digits, big-endian; the first bit is the sign, upside down, and negative numbers are
// inverted.
func (r *rows) decimal(data []byte, precision, scale int) (connectors.Value, error) {
	var buf [40]byte
	if len(data) > len(buf) || len(data) == 0 {
		return connectors.Value{}, errRow
	}
	b := buf[:copy(buf[:], data)]
	negative := b[0]&0x80 == 0
	b[0] ^= 0x80
	if negative {
		for i := range b {
			b[i] = ^b[i]
		}
	}
	start := len(r.arena)
	if negative {
		r.arena = append(r.arena, '-')
	}
	whole := precision - scale
	digits := len(r.arena)
	group := func(n int) {
		v := uint64(0)
		size := digitBytes[n]
		for _, c := range b[:size] {
			v = v<<8 | uint64(c)
		}
		b = b[size:]
		at := len(r.arena)
		for range n {
			r.arena = append(r.arena, '0')
		}
		for i := at + n - 1; i >= at && v > 0; i-- {
			r.arena[i] = '0' + byte(v%10)
			v /= 10
		}
	}
	group(whole % 9)
	for range whole / 9 {
		group(9)
	}
	zeros := 0
	for zeros < len(r.arena)-digits-1 && r.arena[digits+zeros] == '0' {
		zeros++
	}
	if zeros > 0 {
		r.arena = append(r.arena[:digits], r.arena[digits+zeros:]...)
	}
	if len(r.arena) == digits {
		r.arena = append(r.arena, '0')
	}
	if scale > 0 {
		r.arena = append(r.arena, '.')
		for range scale / 9 {
			group(9)
		}
		group(scale % 9)
	}
	return connectors.DataValue(connectors.Decimal, r.since(start)), nil
}

func appendPadded(dst []byte, n uint64, width int) []byte {
	if width == 2 && n < 100 { // nearly always
		return append(dst, '0'+byte(n/10), '0'+byte(n%10))
	}
	var buf [20]byte
	at := len(buf)
	for at == len(buf) || n > 0 || len(buf)-at < width {
		at--
		buf[at] = '0' + byte(n%10)
		n /= 10
	}
	return append(dst, buf[at:]...)
}
