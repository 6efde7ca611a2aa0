package config

import (
	"fmt"
	"strings"

	"github.com/trunkline/trunkline/pipeline/codec"
)

// unread reports sinks that take topics of sources whose envelope is for other readers. What a table names as its own topic
// is not known here; the sink finds out when it gets there.
func (d *decoder) unread(c *Config) {
	for _, source := range c.Sources {
		if source.Format.Envelope == codec.Lossless {
			continue
		}
		written := strings.ReplaceAll(source.Topic, "{source}", source.Name)
		written = placeholder.ReplaceAllString(written, "*")
		for _, sink := range c.Sinks {
			for _, pattern := range sink.Topics {
				if meet(pattern, written) {
					d.fail(sink.Line, "sinks."+sink.Name, fmt.Sprintf(
						"it takes topics of source %s (%s), whose envelope is %s: a sink reads the default envelope, which loses nothing; "+
							"name other topics, or read the tables with a second source without envelope", source.Name, pattern, source.Format.Envelope))
					break
				}
			}
		}
	}
}

// meet reports whether there is a name that both globs match. It looks at each pair of ends once.
func meet(a, b string) bool {
	seen := map[[2]int]bool{}
	var from func(i, j int) bool
	from = func(i, j int) bool {
		place := [2]int{i, j}
		if seen[place] {
			return false // it was tried
		}
		seen[place] = true
		switch {
		case i == len(a) || j == len(b):
			return strings.Trim(a[i:]+b[j:], "*") == ""
		case a[i] == '*':
			return from(i+1, j) || from(i, j+1)
		case b[j] == '*':
			return from(i, j+1) || from(i+1, j)
		}
		return (a[i] == b[j] || a[i] == '?' || b[j] == '?') && from(i+1, j+1)
	}
	return from(0, 0)
}
