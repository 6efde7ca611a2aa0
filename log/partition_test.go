package log

import "testing"

// The values are those of Kafka's own UtilsTest and of librdkafka's unit test.
func TestMurmur2MatchesKafka(t *testing.T) {
	signed := map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	}
	for key, want := range signed {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
	unsigned := map[string]uint32{"kafka": 0xd067cf64, "giberish123456789": 0x8f552b0c, "1234": 0x9fc97b14, "": 0x106e08d9}
	for key, want := range unsigned {
		if got := murmur2([]byte(key)); got != want {
			t.Errorf("murmur2(%q) = %#x, want %#x", key, got, want)
		}
	}
}

func TestPartitionForIsNeverNegative(t *testing.T) {
	for _, key := range []string{"21", "foobar", "abc", ""} {
		for n := int32(1); n < 50; n++ {
			if p := PartitionFor([]byte(key), n); p < 0 || p >= n {
				t.Fatalf("PartitionFor(%q, %d) = %d", key, n, p)
			}
		}
	}
}
