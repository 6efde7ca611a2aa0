package rowfile

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/trunkline/trunkline/connectors"
)

// restore makes a value out of Parquet's form of it, the inverse of parse. Bytes are appended to arena.
type restore func(v parquet.Value, arena []byte) (connectors.Value, []byte)

// written returns a restore whose text is what add appends.
func written(kind connectors.Kind, add func(dst []byte, v parquet.Value) []byte) restore {
	return func(v parquet.Value, arena []byte) (connectors.Value, []byte) {
		start := len(arena)
		arena = add(arena, v)
		return connectors.DataValue(kind, arena[start:len(arena):len(arena)]), arena
	}
}

func copied(kind connectors.Kind) restore {
	return written(kind, func(dst []byte, v parquet.Value) []byte { return append(dst, v.ByteArray()...) })
}

// restoreOf chooses what a leaf's values are: by the logical type, or else by the physical one.
func restoreOf(n parquet.Node) (connectors.Column, restore) {
	var logical format.LogicalTypeValue
	if t := n.Type().LogicalType(); t != nil {
		logical = t.Value
	}
	of := func(kind connectors.Kind) connectors.Column { return connectors.Column{Kind: kind} }
	switch t := logical.(type) {
	case *format.StringType, *format.EnumType:
		return of(connectors.Text), copied(connectors.Text)
	case *format.JsonType:
		return of(connectors.JSON), copied(connectors.JSON)
	case *format.DecimalType:
		c := of(connectors.Decimal)
		c.Type = fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
		return c, decimalOf(n.Type().Kind(), int(t.Scale))
	case *format.DateType:
		return of(connectors.Date), written(connectors.Date, func(dst []byte, v parquet.Value) []byte {
			return time.Unix(int64(v.Int32())*86400, 0).UTC().AppendFormat(dst, time.DateOnly)
		})
	case *format.TimeType:
		unit := t.Unit.Value.Duration()
		return of(connectors.Time), written(connectors.Time, func(dst []byte, v parquet.Value) []byte {
			return time.Unix(0, 0).UTC().Add(time.Duration(integer(v))*unit).AppendFormat(dst, "15:04:05.999999999")
		})
	case *format.TimestampType:
		kind, layout := connectors.Timestamp, "2006-01-02T15:04:05.999999999"
		if t.IsAdjustedToUTC {
			kind, layout = connectors.TimestampTZ, layout+"Z"
		}
		perSecond := int64(time.Second / t.Unit.Value.Duration())
		nanos := int64(t.Unit.Value.Duration())
		return of(kind), written(kind, func(dst []byte, v parquet.Value) []byte {
			n := v.Int64()
			second, rest := n/perSecond, n%perSecond
			return time.Unix(second, rest*nanos).UTC().AppendFormat(dst, layout)
		})
	case *format.UUIDType:
		c := of(connectors.Text)
		c.Type = "uuid"
		return c, written(connectors.Text, appendUUID)
	case *format.IntType:
		if !t.IsSigned && t.BitWidth == 64 {
			return of(connectors.Uint), func(v parquet.Value, arena []byte) (connectors.Value, []byte) {
				return connectors.UintValue(uint64(v.Int64())), arena
			}
		}
		if !t.IsSigned {
			return of(connectors.Int), func(v parquet.Value, arena []byte) (connectors.Value, []byte) {
				return connectors.IntValue(int64(uint32(v.Int32()))), arena
			}
		}
	}
	return physical(n.Type().Kind())
}

func physical(kind parquet.Kind) (connectors.Column, restore) {
	of := func(kind connectors.Kind) connectors.Column { return connectors.Column{Kind: kind} }
	switch kind {
	case parquet.Boolean:
		return of(connectors.Bool), func(v parquet.Value, arena []byte) (connectors.Value, []byte) {
			return connectors.BoolValue(v.Boolean()), arena
		}
	case parquet.Int32, parquet.Int64:
		return of(connectors.Int), func(v parquet.Value, arena []byte) (connectors.Value, []byte) {
			return connectors.IntValue(integer(v)), arena
		}
	case parquet.Float:
		return of(connectors.Float), written(connectors.Float, func(dst []byte, v parquet.Value) []byte {
			return appendFloat(dst, float64(v.Float()), 32)
		})
	case parquet.Double:
		return of(connectors.Float), written(connectors.Float, func(dst []byte, v parquet.Value) []byte {
			return appendFloat(dst, v.Double(), 64)
		})
	case parquet.Int96: // an old form of a moment: nanoseconds of a day, and the day by Julian's count
		const epoch = 2440588
		return of(connectors.TimestampTZ), written(connectors.TimestampTZ, func(dst []byte, v parquet.Value) []byte {
			n := v.Int96()
			nanos, day := int64(uint64(n[0])|uint64(n[1])<<32), int64(n[2])
			return time.Unix((day-epoch)*86400, nanos).UTC().AppendFormat(dst, "2006-01-02T15:04:05.999999999Z")
		})
	}
	return of(connectors.Bytes), copied(connectors.Bytes)
}

func integer(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

func appendUUID(dst []byte, v parquet.Value) []byte {
	b := v.ByteArray()
	for i := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, b[i:i+1])
	}
	return dst
}

// decimalOf reads an unscaled number, in two's complement where it is bytes.
func decimalOf(kind parquet.Kind, scale int) restore {
	return written(connectors.Decimal, func(dst []byte, v parquet.Value) []byte {
		if kind == parquet.Int32 || kind == parquet.Int64 {
			return appendScaled(dst, strconv.FormatInt(integer(v), 10), scale)
		}
		b := v.ByteArray()
		if len(b) <= 8 {
			var full [8]byte
			if len(b) > 0 && b[0] >= 0x80 {
				full = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
			}
			copy(full[8-len(b):], b)
			return appendScaled(dst, strconv.FormatInt(int64(binary.BigEndian.Uint64(full[:])), 10), scale)
		}
		n := new(big.Int).SetBytes(b)
		if b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return appendScaled(dst, n.String(), scale)
	})
}

// appendScaled puts the point into the digits of a whole number.
func appendScaled(dst []byte, digits string, scale int) []byte {
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if scale <= 0 {
		return append(dst, digits...)
	}
	for len(digits) <= scale {
		digits = "0" + digits
	}
	point := len(digits) - scale
	dst = append(append(dst, digits[:point]...), '.')
	return append(dst, digits[point:]...)
}
