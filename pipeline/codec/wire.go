package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trunkline/trunkline/connectors"
)

// Encoding is how a topic's records are written.
type Encoding string

// The encodings. Avro and Protobuf are in Confluent's wire format, with a schema made from the table:
//
//	byte    0          always zero
//	int32   1..5       id of the schema in the registry, big endian
//	varint  5          Protobuf only: 0, the first message of the schema
//	...                the message
const (
	EncodingJSON     Encoding = "json"
	EncodingAvro     Encoding = "avro"
	EncodingProtobuf Encoding = "protobuf"
	encodingEvent    Encoding = "event" // of rows of an outbox; it follows from the table
)

// HeaderEncoding names the encoding of a record that is not JSON.
const HeaderEncoding = "trunkline.encoding"

// EncodingOf returns how the rows of a table are written in a topic of an encoding: events as they are, whatever it is.
func EncodingOf(e Encoding, t *connectors.Table) Encoding {
	if t.Dialect == connectors.EventDialect {
		return encodingEvent
	}
	return e
}

// RegistrySchema is a schema as a registry keeps it.
type RegistrySchema struct {
	Type string // AVRO, PROTOBUF
	Text string
}

// NewWire returns the encoder for one version of a table, and the schemas of key and value that readers need; nil for
// JSON and events, which need none. The ids of those in the registry are set with Registered before the first record.
func NewWire(e Encoding, o Origin, t *connectors.Table) (Encoder, []RegistrySchema) {
	switch EncodingOf(e, t) {
	case EncodingAvro:
		a := newAvro(o, t)
		return a, a.schemas()
	case EncodingProtobuf:
		p := newProtobuf(o, t)
		return p, p.schemas()
	case encodingEvent:
		return event{}, nil
	}
	return NewJSON(o), nil
}

// Registered is an encoder whose records name schemas by the id that a registry gave them: of the key, and of the value.
type Registered interface {
	Encoder
	Register(key, value int32)
}

// lossless is what encoders have in common whose records hold everything.
type lossless struct{}

// Takes is true: everything that happened is in the log.
func (lossless) Takes(connectors.Op) bool { return true }

// Tombstone follows the topic: it is compaction that needs one.
func (lossless) Tombstone(compacted bool) bool { return compacted }

// Name returns Lossless.
func (lossless) Name() Envelope { return Lossless }

// appendWire appends the head of a record.
func appendWire(dst []byte, id int32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(id))
}

// cutWire takes the head off.
func cutWire(b []byte) ([]byte, error) {
	if len(b) < 5 || b[0] != 0 {
		return nil, fmt.Errorf("it does not begin with a zero byte and the id of a schema")
	}
	return b[5:], nil
}

// wireNames makes names of columns that Avro and Protobuf take: letters, digits and underscores. Two columns never get
// one name; case does not count, since Protobuf's generated code folds it.
func wireNames(columns []connectors.Column) []string {
	out := make([]string, len(columns))
	taken := map[string]bool{}
	for i, c := range columns {
		base := wireName(c.Name)
		name := base
		for n := 2; taken[strings.ToLower(name)]; n++ {
			name = base + "_" + strconv.Itoa(n)
		}
		taken[strings.ToLower(name)] = true
		out[i] = name
	}
	return out
}

func wireName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= utf8.RuneSelf:
			fmt.Fprintf(&b, "u%x", r)
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '_', '0' <= r && r <= '9':
			if b.Len() == 0 && '0' <= r && r <= '9' {
				b.WriteByte('_')
			}
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}

// namespace is the package of a table's messages.
func namespace(o Origin, t *connectors.Table) string {
	var parts []string
	for _, p := range []string{o.Name, t.Schema, t.Name} {
		if p != "" {
			parts = append(parts, wireName(p))
		}
	}
	return strings.Join(parts, ".")
}

// floatText is the canonical text of a float, of which most texts are.
func floatText(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, f, 'g', -1, 64) }

// exactly collects what a change holds beside what its fields can: the columns that an image does not carry, and the JSON
// of values that are not of their column's type. It is used again for each record.
type exactly struct {
	unchanged []int // columns that are absent from after
	carried   []int // columns that before carries, if it does not carry all
	partial   bool
	texts     []inexact
}

type inexact struct {
	image  byte // b, a
	column int
	value  connectors.Value
}

func (x *exactly) reset() {
	x.unchanged, x.carried, x.partial, x.texts = x.unchanged[:0], x.carried[:0], false, x.texts[:0]
}

// look notes what is not as the columns of the table say.
func (x *exactly) look(t *connectors.Table, c *connectors.Change) error {
	x.reset()
	for _, image := range [...]struct {
		name byte
		row  []connectors.Value
	}{{'b', c.Before}, {'a', c.After}} {
		if image.row == nil {
			continue
		}
		if len(image.row) != len(t.Columns) {
			return fmt.Errorf("encode row of %s: %d values for %d columns", t.FullName(), len(image.row), len(t.Columns))
		}
		for i, v := range image.row {
			switch {
			case v.IsAbsent() && image.name == 'a':
				x.unchanged = append(x.unchanged, i)
			case v.IsAbsent():
				x.partial = true
			case !v.IsNull() && !fits(t.Columns[i].Kind, v):
				if err := checkKind(t, i, v); err != nil {
					return err
				}
				x.texts = append(x.texts, inexact{image.name, i, v})
			}
		}
	}
	if x.partial {
		for i, v := range c.Before {
			if !v.IsAbsent() {
				x.carried = append(x.carried, i)
			}
		}
	}
	return nil
}

// fits reports whether a field of the column's kind brings a value back as it is.
func fits(kind connectors.Kind, v connectors.Value) bool {
	if v.Kind() != kind {
		return false
	}
	if kind != connectors.Float {
		return true
	}
	f, ok := parseFloat(v.Data())
	var text [32]byte
	return ok && (f != f || math.IsInf(f, 0) || string(floatText(text[:0], f)) == string(v.Data()))
}

// parseFloat reads the canonical text of a Float.
func parseFloat(text []byte) (float64, bool) {
	switch string(text) {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil && !math.IsInf(f, 0) && f == f
}

// valueOfFloat makes a Float of what a field of eight bytes holds.
func valueOfFloat(f float64, arena *Arena) connectors.Value {
	arena.room(32)
	start := len(arena.bytes)
	switch {
	case f != f:
		arena.bytes = append(arena.bytes, "NaN"...)
	case f > math.MaxFloat64:
		arena.bytes = append(arena.bytes, "Infinity"...)
	case f < -math.MaxFloat64:
		arena.bytes = append(arena.bytes, "-Infinity"...)
	default:
		arena.bytes = floatText(arena.bytes, f)
	}
	return connectors.DataValue(connectors.Float, arena.bytes[start:len(arena.bytes):len(arena.bytes)])
}
