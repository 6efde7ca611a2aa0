package disk_test

import (
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

func TestNothingIsAllocatedForARecord(t *testing.T) {
	const rows = 1000
	l := open(t, t.TempDir(), disk.Options{})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	records := make([]log.Record, rows)
	for i := range records {
		records[i] = log.Record{Key: []byte("key"), Value: make([]byte, 200), Headers: []log.Header{{Key: "trunkline.schema", Value: []byte("7")}}}
	}
	appendAll := func() {
		for i := range records {
			if err := p.Append(t.Context(), orders(0), records[i:i+1]...); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Commit(t.Context(), []byte("m")); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(20, appendAll); n > rows/4 {
		t.Errorf("appending %d records took %v allocations", rows, n)
	}
	c := openConsumer(t, l, log.ConsumerOptions{Group: "g", Topics: []string{"orders"}})
	pollAll := func() {
		for n := 0; n < rows; {
			f, err := c.Poll(t.Context(), rows)
			if err != nil {
				t.Fatal(err)
			}
			n += len(f.Records)
		}
		if err := c.Seek(orders(0), 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(20, pollAll); n > rows/4 {
		t.Errorf("reading %d records took %v allocations", rows, n)
	}
}
