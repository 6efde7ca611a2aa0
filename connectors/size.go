package connectors

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes in the settings of a connector: a whole number, alone or with one of sizeUnits.
type Size int64

// sizeUnits are binary with an i and decimal without, as IEC 80000-13 and SI have them.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// UnmarshalText reads 8MiB, 100kB or 4096.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for _, u := range sizeUnits {
		if cut, ok := strings.CutSuffix(digits, u.name); ok {
			digits, unit = strings.TrimSpace(cut), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > (1<<63-1)/unit {
		return fmt.Errorf("not a size: a whole number of bytes, or with one of the units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB (8MiB)")
	}
	*s = Size(n * unit)
	return nil
}

// String returns the size in the largest binary unit that divides it.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
