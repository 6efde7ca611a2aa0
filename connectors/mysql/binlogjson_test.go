package mysql

import (
	"encoding/binary"
	"testing"
)

// packedDateTime is a moment as MySQL stores it in a document.
func packedDateTime(year, month, day, hour, minute, second int) []byte {
	n := (int64(year*13+month)<<5|int64(day))<<17 | int64(hour)<<12 | int64(minute)<<6 | int64(second)
	return binary.LittleEndian.AppendUint64(nil, uint64(n<<24))
}

// opaque is a value of a column type that JSON has not.
func opaque(typ byte, data ...byte) []byte { return append([]byte{typ, byte(len(data))}, data...) }

// smallObject lays a document out as sql/json_binary.h says: keys of one letter in their order, and no value in its entry.
func smallObject(keys string, types []byte, values [][]byte) []byte {
	at := 4 + 4*len(keys) + 3*len(keys)
	var entries, kinds, bytes []byte
	for i := range len(keys) {
		entries = binary.LittleEndian.AppendUint16(entries, uint16(at+i))
		entries = binary.LittleEndian.AppendUint16(entries, 1)
	}
	at += len(keys)
	for i, v := range values {
		kinds = append(kinds, types[i])
		kinds = binary.LittleEndian.AppendUint16(kinds, uint16(at+len(bytes)))
		bytes = append(bytes, v...)
	}
	out := binary.LittleEndian.AppendUint16([]byte{jsonSmallObject}, uint16(len(keys)))
	out = binary.LittleEndian.AppendUint16(out, uint16(at+len(bytes)))
	return append(append(append(append(out, entries...), kinds...), keys...), bytes...)
}

// F21: a document of MySQL 8 is the text that CAST(… AS CHAR) gives: every digit of a decimal and of a 64-bit number, which no
// float64 has, and a moment in its own form.
func TestBinaryDocumentsKeepTheirDigits(t *testing.T) {
	t.Parallel()
	document := smallObject("bdpt", []byte{jsonUint64, jsonOpaque, jsonOpaque, jsonOpaque}, [][]byte{
		binary.LittleEndian.AppendUint64(nil, 1<<64-1),
		opaque(0xf6, 2, 1, 0x81, 0x00), // DECIMAL(2,1): 1.0
		opaque(0xf6, 3, 2, 0x81, 0x63), // DECIMAL(3,2): 1.99
		opaque(0x0c, packedDateTime(2026, 1, 1, 10, 0, 0)...),
	})
	const want = `{"b": 18446744073709551615, "d": 1.0, "p": 1.99, "t": "2026-01-01 10:00:00.000000"}`
	v, err := (&rows{}).binaryJSON(document)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(v.Data()); got != want {
		t.Errorf("the document is\n%s\nwant\n%s", got, want)
	}
}
