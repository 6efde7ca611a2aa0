package connectors

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawValue draws a canonical value of the kind.
func drawValue(t *rapid.T, k Kind) Value {
	text := func() []byte { return []byte(rapid.String().Draw(t, "text")) }
	switch k {
	case Bool:
		return BoolValue(rapid.Bool().Draw(t, "bool"))
	case Int:
		return IntValue(rapid.Int64().Draw(t, "int"))
	case Uint:
		return UintValue(rapid.Uint64().Draw(t, "uint"))
	case Float:
		f := rapid.Float64().Draw(t, "float")
		switch {
		case math.IsInf(f, 1):
			return DataValue(Float, []byte("Infinity"))
		case math.IsInf(f, -1):
			return DataValue(Float, []byte("-Infinity"))
		case f == 0 && math.Signbit(f):
			return DataValue(Float, []byte("-0.0"))
		}
		return DataValue(Float, strconv.AppendFloat(nil, f, 'g', -1, 64))
	case Bytes:
		return DataValue(Bytes, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case Array:
		out, err := json.Marshal(rapid.SliceOf(rapid.String()).Draw(t, "array"))
		if err != nil || string(out) == "null" {
			out = []byte("[]")
		}
		return DataValue(Array, out)
	case Map:
		out, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.Ptr(rapid.String(), true)).Draw(t, "map"))
		if err != nil || string(out) == "null" {
			out = []byte("{}")
		}
		return DataValue(Map, out)
	default:
		return DataValue(k, text())
	}
}

func TestParseJSONInvertsAppendJSONForEveryKind(t *testing.T) {
	t.Parallel()
	for k := Bool; k <= Map; k++ {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v := drawValue(t, k)
				encoded := AppendJSON([]byte("x"), v)[1:]
				if !json.Valid(encoded) {
					t.Fatalf("%s is not JSON", encoded)
				}
				token, rest, err := ScanJSON(append(encoded, ",1"...))
				if err != nil || string(rest) != ",1" {
					t.Fatalf("scan %s: rest %q, %v", encoded, rest, err)
				}
				arena := []byte("kept")
				got, arena, err := ParseJSON(k, token, arena)
				if err != nil {
					t.Fatal(err)
				}
				if !got.Equal(v) || string(arena[:4]) != "kept" {
					t.Fatalf("%v became %v by %s", v, got, encoded)
				}
				cut, rest, _, err := CutJSON(k, append(encoded, ",1"...), nil)
				if err != nil || !cut.Equal(v) || string(rest) != ",1" {
					t.Fatalf("%v is cut as %v by %s, rest %q, %v", v, cut, encoded, rest, err)
				}
			})
		})
	}
}

func TestAppendJSONFollowsTheRecordTable(t *testing.T) {
	t.Parallel()
	data := func(k Kind, s string) Value { return DataValue(k, []byte(s)) }
	for _, c := range []struct {
		v    Value
		want string
	}{
		{Value{}, `null`},
		{NullValue(), `null`},
		{BoolValue(true), `true`},
		{BoolValue(false), `false`},
		{IntValue(math.MinInt64), `-9223372036854775808`},
		{UintValue(math.MaxUint64), `18446744073709551615`},
		{data(Float, "-0.0"), `-0.0`},
		{data(Float, "1e+300"), `1e+300`},
		{data(Float, "NaN"), `"NaN"`},
		{data(Float, "-Infinity"), `"-Infinity"`},
		{data(Float, "1."), `"1."`},
		{data(Decimal, "12345678901234567890.10"), `"12345678901234567890.10"`},
		{data(Bytes, "\x00\xff"), `"AP8="`},
		{data(Bytes, ""), `""`},
		{data(JSON, `{"a": 1.0}`), `"{\"a\": 1.0}"`},
		{data(JSON, `null`), `"null"`},
		{data(Date, "0044-03-15 BC"), `"0044-03-15 BC"`},
		{data(Bits, "10101"), `"10101"`},
		{data(Array, `[[1,null],[3,4]]`), `[[1,null],[3,4]]`},
		{data(Array, `[0:1]={1,2}`), `"[0:1]={1,2}"`},
		{data(Map, `{"a":null}`), `{"a":null}`},
		{data(Text, "a\x00b\u007f\"\\\n\r\t\b\u2028é\U0001F600/<"), `"a\u0000b` + "\u007f" + `\"\\\n\r\t\u0008` + "\u2028é\U0001F600" + `/<"`},
		{data(Text, "ab\xffcd\xc3"), `"ab` + "\uFFFD" + `cd` + "\uFFFD" + `"`},
	} {
		if got := string(AppendJSON(nil, c.v)); got != c.want {
			t.Errorf("%v %q became %s, want %s", c.v.Kind(), c.v.AppendText(nil), got, c.want)
		}
	}
}

func TestParseJSONReadsWhatOthersWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  Kind
		token string
		want  Value
	}{
		{Text, `"\u00e9\ud83d\ude00\/"`, DataValue(Text, []byte("é\U0001F600/"))},
		{Text, `"\ud83d!"`, DataValue(Text, []byte("\uFFFD!"))},
		{Text, `"\ud83d\u0041"`, DataValue(Text, []byte("\uFFFDA"))},
		{Text, "\"a\xff\\n\"", DataValue(Text, []byte("a\uFFFD\n"))},
		{Text, "\"a\xff\"", DataValue(Text, []byte("a\uFFFD"))},
		{Int, `"12:00"`, DataValue(Text, []byte("12:00"))},
		{Array, `"[0:1]={1,2}"`, DataValue(Text, []byte("[0:1]={1,2}"))},
		{Text, `5`, IntValue(5)},
		{Text, `5.5`, DataValue(Float, []byte("5.5"))},
		{Int, `9223372036854775808`, UintValue(1 << 63)},
		{Int, `-9223372036854775808`, IntValue(math.MinInt64)},
		{Text, `true`, BoolValue(true)},
	} {
		got, _, err := ParseJSON(c.kind, []byte(c.token), nil)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%v %s became %v, %v; want %v", c.kind, c.token, got, err, c.want)
		}
	}
	for _, c := range []struct {
		kind  Kind
		token string
	}{
		{Bytes, `"not base64"`}, {Bytes, `1`}, {Bytes, `true`}, {Text, `[1]`}, {Array, `{}`}, {Map, `[]`},
		{Int, `18446744073709551616`}, {Int, `-9223372036854775809`}, {Int, ``}, {Text, `"`},
	} {
		if got, _, err := ParseJSON(c.kind, []byte(c.token), nil); err == nil {
			t.Errorf("%v %s was read as %v", c.kind, c.token, got)
		}
	}
}

func TestScanJSONAgreesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		``, ` `, `nul`, `truex`, `-`, `01`, `1.`, `1e`, `1e+`, `.5`, `+1`, `"a`, "\"a\nb\"", `"\x"`, `"\u12g4"`, `[1,]`, `[,1]`,
		`{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `[1 2]`, `[}`, `{]`, `1 2`, `[[[]]]`, `{"a":[{"b":null}]} `, "\t-0.0e-1", `"\u0000"`,
	} {
		if got, want := ValidJSON([]byte(s)), json.Valid([]byte(s)); got != want {
			t.Errorf("%q valid: %v, the standard library says %v", s, got, want)
		}
	}
	if deep := strings.Repeat("[", 100000); ValidJSON([]byte(deep)) {
		t.Error("nesting without end was accepted")
	}
}

func FuzzScanJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2.5e3,"x\u0041\n",true,null]}`))
	f.Add([]byte("\"\xff\\\""))
	f.Fuzz(func(t *testing.T, b []byte) {
		token, rest, err := ScanJSON(b)
		if valid := err == nil && len(rest) == 0; valid != json.Valid(b) && bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) < maxDepth {
			t.Fatalf("valid: %v, the standard library says %v", valid, !valid)
		}
		if err != nil {
			return
		}
		for k := Absent; k <= Map; k++ {
			v, _, err := ParseJSON(k, token, nil)
			if err != nil {
				continue
			}
			again, _, err := ParseJSON(k, AppendJSON(nil, v), nil)
			if err != nil || !again.Equal(v) {
				t.Fatalf("%v: %v became %v, %v", k, v, again, err)
			}
		}
		if token[0] == '"' {
			var want string
			got, _, err := Unquote(token, nil)
			if json.Unmarshal(token, &want) != nil || err != nil || string(got) != want {
				t.Fatalf("unquoted to %q, %v; the standard library says %q", got, err, want)
			}
		}
	})
}

// CutJSON has short ways for what most values are, and gives what the long way gives.
func FuzzCutJSONIsScanAndParse(f *testing.F) {
	for _, seed := range []string{`"a",`, `""}`, `"a" , 1`, `"\n",`, "\"\xc3\xa9\"}", `12,`, `012,`, `0,`, `-5}`, `5`, `5 ,`, `5.0,`, `123456789012345678,`, `1234567890123456789,`,
		`18446744073709551615}`, `null,`, `true}`, `[1,2],`, `{"a":null}}`, `"`, ``, "\"a\x00\"", `"AP8=",`} {
		for kind := Absent; kind <= Map; kind++ {
			f.Add(uint8(kind), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		k := Kind(kind % uint8(Map+1))
		got, rest, _, err := CutJSON(k, b, nil)
		token, want, scanErr := ScanJSON(b)
		var value Value
		if scanErr == nil {
			value, _, scanErr = ParseJSON(k, token, nil)
		}
		if (err == nil) != (scanErr == nil) {
			t.Fatalf("%q as %v: %v, and in two steps %v", b, k, err, scanErr)
		}
		if err == nil && (!got.Equal(value) || string(rest) != string(want)) {
			t.Errorf("%q as %v: %v and %q, in two steps %v and %q", b, k, got, rest, value, want)
		}
	})
}

func FuzzParseJSONTakesAnyToken(f *testing.F) {
	f.Add(byte(Text), []byte(`"\`))
	f.Fuzz(func(t *testing.T, kind byte, token []byte) {
		v, _, err := ParseJSON(Kind(kind), token, nil)
		if err == nil && v.Kind() > Map && Kind(kind) <= Map {
			t.Fatalf("kind %v", v.Kind())
		}
	})
}

func BenchmarkAppendJSONString(b *testing.B) {
	s := []byte(strings.Repeat("plain text ", 20))
	dst := make([]byte, 0, 1024)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		dst = AppendJSONString(dst[:0], s)
	}
}

func TestWholePairs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`"a"`: true, `"\u00e9"`: true, `"\ud83d\ude42"`: true, `"x\ud83d\ude42\ud83d\ude42y"`: true, `"\\ud83d"`: true, `"\\\ud83d"`: false,
		`"\ud83d"`: false, `"\ude42"`: false, `"\ud83d\u0041"`: false, `"\ude42\ud83d"`: false, `"\ud83d\ud83d\ude42"`: false, `"\ud83dxxxxxxxx"`: false, `{"k":["\uD83D\uDE42","\uD83D"]}`: false,
	} {
		if got := WholePairs([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
