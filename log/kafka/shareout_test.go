package kafka

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// TestShareOut plays rounds of a group whose members come and go. A name never has two holders, and when nothing changes
// any more every name is held and nobody has two more than another.
func TestShareOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{}
		for i := range rapid.IntRange(0, 12).Draw(t, "names") {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		held := map[string][]string{} // by member
		for step := range rapid.IntRange(1, 5).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "leaves") {
				delete(held, rapid.SampledFrom(keys(held)).Draw(t, "who"))
			}
			held[fmt.Sprintf("m%d", step)] = nil
			settle(t, names, held)
		}
	})
}

func keys(m map[string][]string) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// settle plays rounds until nothing moves.
func settle(t *rapid.T, names []string, held map[string][]string) {
	for round := 0; ; round++ {
		if round > 5 {
			t.Fatalf("it does not settle: %v", held)
		}
		claims := map[string]leaseClaim{}
		for m, h := range held {
			claims[m] = leaseClaim{Can: names, Holds: h}
		}
		moved := false
		given := map[string]string{}
		for m, got := range shareOut(claims) {
			for _, name := range got {
				if other, taken := given[name]; taken {
					t.Fatalf("%s is given to %s and %s", name, m, other)
				}
				given[name] = m
				for other, h := range held {
					if other != m && slices.Contains(h, name) {
						t.Fatalf("%s is given to %s while %s holds it", name, m, other)
					}
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, held[m]) {
				moved = true
			}
		}
		for m := range held {
			held[m] = nil
		}
		for name, m := range given {
			held[m] = append(held[m], name)
		}
		for m := range held {
			slices.Sort(held[m])
		}
		if !moved {
			break
		}
	}
	least, most, total := len(names), 0, 0
	for _, h := range held {
		least, most, total = min(least, len(h)), max(most, len(h)), total+len(h)
	}
	if total != len(names) || most > least+1 {
		t.Fatalf("held are %v", held)
	}
}

// FuzzMarkScan feeds records of the topic of marks in any order: what is not decided never counts.
func FuzzMarkScan(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, script []byte) {
		s := markScan{id: "shop", undecided: map[int64][]byte{}}
		for i, b := range script {
			r := &kgo.Record{Offset: int64(i), ProducerID: int64(b >> 4), Key: []byte("shop"), Value: []byte{b}}
			switch b % 4 {
			case 0:
				r.Key = []byte("another")
			case 1:
				r.Key = script[:min(len(script), int(b>>4))]
			}
			s.see(r)
			if s.next != int64(i)+1 {
				t.Fatalf("next is %d after offset %d", s.next, i)
			}
		}
	})
}
