package command

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestConsoleLinesReadAsSentences(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := newLogger(&out, slog.LevelInfo, false)
	source := logger.With("source", "shop")
	source.Debug("not shown")
	source.Info("opened", "source", "shop", "tables", 3)
	source.Warn("retrying", "error", errors.New("connection\nrefused"), "attempt", 2)
	logger.Info("started", "log", "data/my log", "sink", "copy")
	logger.WithGroup("g").Info("grouped", "k", "v")
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimSpace(line[len("15:04:05"):]))
	}
	want := []string{
		"source shop: opened  tables=3",
		"warn  source shop: retrying: connection; refused  attempt=2",
		`sink copy: started  log="data/my log"`,
		"grouped  g.k=v",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestJSONLinesNameTheirSourceOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := newLogger(&out, slog.LevelInfo, true).With("source", "shop")
	logger.With("source", "shop").Info("opened", "source", "shop")
	logger.Info("other", "source", "erp")
	first, second, _ := strings.Cut(out.String(), "\n")
	if strings.Count(first, `"source"`) != 1 || !strings.Contains(second, `"erp"`) {
		t.Errorf("got %s", out.String())
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1 000", -1234567: "-1 234 567", 10_000_000: "10 000 000"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1536: "1.5KiB", 5 << 30: "5.0GiB", 1 << 50: "1024.0TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for s, want := range map[float64]string{0.04: "0s", 1.26: "1.3s", 59.6: "1m0s", 3600: "1h0m", 400: "7m"} {
		if got := span(s); got != want {
			t.Errorf("span(%v) = %q, want %q", s, got, want)
		}
	}
}
