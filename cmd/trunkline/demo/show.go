package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// statusHeader names the columns of the status line.
func statusHeader(stores []store) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%-7s %12s %12s", "time", "changes", "log offsets")
	for _, s := range stores {
		fmt.Fprintf(&line, "  %16s", s.name)
	}
	return line.String() + "\n"
}

// printStatus prints what the shops did, what the log has and how far each store is behind.
func (w *world) printStatus(ctx context.Context, since time.Duration) {
	st, err := w.daemon.status(ctx)
	if err != nil {
		fmt.Fprintf(w.Out, "%-7s %12s %12s\n", clock(since), number(w.changes()), "starting")
		return
	}
	records := int64(0)
	for _, t := range st.Topics {
		if !strings.HasPrefix(t.Name, "_") {
			records += t.Records
		}
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%-7s %12s %12s", clock(since), number(w.changes()), number(records))
	for _, store := range w.stores() {
		word := "starting"
		for _, s := range st.Sinks {
			if s.Name == store.name {
				word = number(s.LagRows) + " behind"
				if s.State != "running" && s.State != "caught up" {
					word = s.State
				}
			}
		}
		fmt.Fprintf(&line, "  %16s", word)
	}
	fmt.Fprintln(w.Out, line.String())
}

// clock writes a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

// number writes thousands apart.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
