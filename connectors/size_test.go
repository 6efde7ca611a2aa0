package connectors

import (
	"strings"
	"testing"
)

func TestSizeReadsUnits(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "4096": 4096, "8MiB": 8 << 20, "1 GiB": 1 << 30, "100kB": 100_000, "7B": 7, "2TB": 2_000_000_000_000,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestSizeRefusesTheRestAndNamesUnits(t *testing.T) {
	for _, text := range []string{"", "10k", "8mib", "-1", "1.5MiB", "9999999TiB", "MiB", "0x10"} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "MiB") {
			t.Errorf("%q = %d, %v; want an error that names the units", text, got, err)
		}
	}
}

func TestSizePrintsTheLargestUnit(t *testing.T) {
	for size, want := range map[Size]string{0: "0B", 8 << 20: "8MiB", 1000: "1000B", 3 << 40: "3TiB", 1536: "1536B"} {
		if got := size.String(); got != want {
			t.Errorf("%d prints as %s, want %s", int64(size), got, want)
		}
	}
}
