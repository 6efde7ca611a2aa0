package clickhouse

import (
	"testing"

	"github.com/shopspring/decimal"
)

// Numbers that are read the short way are those of the library, and what the short way does not take is left to it.
func TestFewDigitsAreTheNumber(t *testing.T) {
	t.Parallel()
	for text, taken := range map[string]bool{
		"0": true, "0.00": true, "-0.5": true, "12345678.91": true, "-12345678.91": true, "1.5": true, "999": true, "00.10": true,
		"": false, "-": false, ".5": false, "5.": false, "1..2": false, "1.2.3": false, "1e3": false, "NaN": false, "+1": false, "- 1": false, "0.001": false,
		"123456789.00": false, "1234567890123456789": false, "Infinity": false,
	} {
		got, ok := few([]byte(text), 10, 2)
		if ok != taken {
			t.Errorf("%q: %v, want %v", text, ok, taken)
		}
		if !ok {
			continue
		}
		want, err := decimal.NewFromString(text)
		if err != nil || !got.Equal(want) || got.Exponent() != want.Exponent() {
			t.Errorf("%q is %v with exponent %d, want %v with %d, %v", text, got, got.Exponent(), want, want.Exponent(), err)
		}
	}
}
