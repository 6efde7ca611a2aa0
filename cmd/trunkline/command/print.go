package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// printJSON prints one document for machines.
func (a *app) printJSON(v any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// grid prints rows in columns. Trailing space is cut, so that output can be compared.
type grid struct {
	out   io.Writer
	text  strings.Builder
	table *tabwriter.Writer
}

func newGrid(out io.Writer, header ...any) *grid {
	g := &grid{out: out}
	g.table = tabwriter.NewWriter(&g.text, 0, 4, 2, ' ', 0)
	if len(header) > 0 {
		g.row(header...)
	}
	return g
}

func (g *grid) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(g.table, "\t")
		}
		fmt.Fprint(g.table, strings.ReplaceAll(fmt.Sprint(c), "\n", " "))
	}
	fmt.Fprint(g.table, "\n")
}

func (g *grid) flush() error {
	if err := g.table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	for line := range strings.Lines(g.text.String()) {
		if _, err := fmt.Fprintln(g.out, strings.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// count groups digits by three: 1 234 567.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(' ')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// size prints bytes with about three digits.
func size(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; value >= 1024 && i < len(units)-1; i++ {
		value /= 1024
	}
	if i == 0 {
		return connectors.Size(n).String()
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + units[i]
}

// span prints seconds to the precision that people care for.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}
