package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

// geometries are MySQL's types of places, which come as their SRID and WKB.
var geometries = map[string]bool{
	"geometry": true, "linestring": true, "polygon": true, "multipoint": true, "multilinestring": true, "multipolygon": true,
	"geometrycollection": true, "geomcollection": true,
}

// point is a place as numbers and as WKB.
func point(write func([]byte, connectors.Value) ([]byte, bool)) conversion {
	return conversion{
		head: `"type":"struct","fields":[{"type":"double","optional":false,"field":"x"},{"type":"double","optional":false,"field":"y"},` +
			`{"type":"bytes","optional":true,"field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]`,
		tail:  `,"name":"io.debezium.data.geometry.Point","version":1,"doc":"Geometry (POINT)"`,
		zero:  `{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}`,
		write: write,
	}
}

// writePoint reads PostgreSQL's: (1.5,-2).
//
//	WKB   0  01 the numbers are little-endian
//	      1  01 00 00 00 a point
//	      5  x, then y: doubles
func writePoint(dst []byte, v connectors.Value) ([]byte, bool) {
	first, second, found := bytes.Cut(bytes.Trim(v.Data(), "()"), []byte{','})
	x, err := strconv.ParseFloat(string(first), 64)
	if err != nil || !found {
		return dst, false
	}
	y, err := strconv.ParseFloat(string(second), 64)
	if err != nil {
		return dst, false
	}
	var wkb [21]byte
	wkb[0], wkb[1] = 1, 1
	binary.LittleEndian.PutUint64(wkb[5:], math.Float64bits(x))
	binary.LittleEndian.PutUint64(wkb[13:], math.Float64bits(y))
	dst, _ = appendDouble(append(dst, `{"x":`...), first, 64) // both were parsed above
	dst, _ = appendDouble(append(dst, `,"y":`...), second, 64)
	dst = base64.StdEncoding.AppendEncode(append(dst, `,"wkb":"`...), wkb[:])
	return append(dst, `","srid":null}`...), true
}

// writeGeometryPoint reads MySQL's: four bytes of SRID, little-endian, then WKB.
func writeGeometryPoint(dst []byte, v connectors.Value) ([]byte, bool) {
	data := v.Data()
	if len(data) != 25 || data[4] != 1 {
		return dst, false
	}
	var room [32]byte
	for i, name := range [...]string{`{"x":`, `,"y":`} {
		number := math.Float64frombits(binary.LittleEndian.Uint64(data[9+8*i:]))
		dst, _ = appendDouble(append(dst, name...), strconv.AppendFloat(room[:0], number, 'e', -1, 64), 64)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, `,"wkb":"`...), data[4:])
	return appendSRID(append(dst, `","srid":`...), data), true
}

// appendSRID appends null for none, and the end of the object.
func appendSRID(dst, data []byte) []byte {
	if srid := binary.LittleEndian.Uint32(data); srid != 0 {
		return append(strconv.AppendInt(dst, int64(srid), 10), '}')
	}
	return append(dst, "null}"...)
}

// geometry is MySQL's: four bytes of SRID, little-endian, then WKB.
func geometry() conversion {
	return conversion{
		head: `"type":"struct","fields":[{"type":"bytes","optional":false,"field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]`,
		tail: `,"name":"io.debezium.data.geometry.Geometry","version":1,"doc":"Geometry"`,
		zero: `{"wkb":"","srid":null}`,
		write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			data := v.Data()
			if v.Kind() != connectors.Bytes || len(data) < 4 {
				return dst, false
			}
			dst = base64.StdEncoding.AppendEncode(append(dst, `{"wkb":"`...), data[4:])
			return appendSRID(append(dst, `","srid":`...), data), true
		},
	}
}
