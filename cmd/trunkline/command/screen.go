package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/trunkline/trunkline/pipeline"
)

// A frame of status --watch is for a person who glances at it on whatever terminal there is: the reasons stand below their
// rows and are wrapped, and what says least goes first where there is no room: the types, the topics, the tables at work.

// noteIndent stands before a reason.
const noteIndent = "    "

// thrift is what a frame leaves out.
type thrift struct{ types, topics, tables bool }

// frame returns the lines of a screen, the last of which says how to leave it.
func frame(s pipeline.Status, width, height int) []string {
	room := max(1, height-1)
	var lines []string
	t := thrift{types: tooWide(frameLines(s, thrift{}, width), width)}
	for _, t.topics = range []bool{false, true} {
		if lines = frameLines(s, t, width); len(lines) <= room {
			break
		}
	}
	if len(lines) > room {
		t.tables = true
		lines = frameLines(s, t, width)
	}
	if more := len(lines) - room + 1; more > 1 {
		lines = append(lines[:room-1], fmt.Sprintf("… %d more lines", more))
	}
	lines = append(lines, s.Time.Local().Format(time.TimeOnly)+"  q quits")
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width-1]) + "…"
		}
	}
	return lines
}

func tooWide(lines []string, width int) bool {
	for _, line := range lines[min(1, len(lines)):] { // the first is the folder, which is long where it is
		if len([]rune(line)) > width {
			return true
		}
	}
	return false
}

func frameLines(s pipeline.Status, t thrift, width int) []string {
	lines := []string{headline(s)}
	if len(s.Sources) > 0 {
		g := newNoted(t, "SOURCE", "TYPE", "STATE", "ROWS", "ROWS/S", "LAG")
		for _, m := range s.Sources {
			g.row(why(m), m.Name, m.Type, m.State, count(m.Rows), count(int64(m.RowsPerSec)), lag(m))
			for _, table := range m.Tables {
				if note := tableNote(table); note != "" || !t.tables {
					g.row(note, "  "+table.Name, "", table.State, count(table.Rows), count(int64(table.RowsPerSec)), "")
				}
			}
		}
		lines = append(append(lines, ""), g.lines(width)...)
	}
	if len(s.Topics) > 0 && t.topics {
		records, bytes := int64(0), int64(0)
		for _, topic := range s.Topics {
			records, bytes = records+topic.Records, bytes+topic.Bytes
		}
		lines = append(lines, "", fmt.Sprintf("%d topics: %s records, %s", len(s.Topics), count(records), size(bytes)))
	} else if len(s.Topics) > 0 {
		g := newNoted(thrift{}, "TOPIC", "PARTITIONS", "RECORDS", "SIZE")
		for _, topic := range s.Topics {
			g.row("", topic.Name, topic.Partitions, count(topic.Records), size(topic.Bytes))
		}
		lines = append(append(lines, ""), g.lines(width)...)
	}
	if len(s.Sinks) > 0 {
		g := newNoted(t, "SINK", "TYPE", "STATE", "ROWS", "ROWS/S", "BEHIND", "LAG", "DEAD")
		for _, m := range s.Sinks {
			g.row(why(m), m.Name, m.Type, m.State, count(m.Rows), count(int64(m.RowsPerSec)), count(m.LagRows), lag(m), count(m.DeadLetters))
			for _, table := range m.Tables {
				g.row(tableNote(table), "  "+table.Name, "", table.State, "", "", "", "", "")
			}
		}
		lines = append(append(lines, ""), g.lines(width)...)
	}
	return lines
}

// noted is a grid whose rows have notes below them.
type noted struct {
	*grid
	text  strings.Builder
	less  thrift
	notes []string // of each row; the header has none
}

func newNoted(less thrift, header ...any) *noted {
	n := &noted{less: less}
	n.grid = newGrid(&n.text)
	n.row("", header...)
	return n
}

// row adds a row and its note. The second cell is the type.
func (n *noted) row(note string, cells ...any) {
	if n.less.types {
		cells = append(cells[:1:1], cells[2:]...)
	}
	n.grid.row(cells...)
	n.notes = append(n.notes, strings.ReplaceAll(note, "\n", " "))
}

func (n *noted) lines(width int) []string {
	if err := n.flush(); err != nil {
		return []string{err.Error()} // into memory
	}
	var out []string
	for i, line := range strings.Split(strings.TrimRight(n.text.String(), "\n"), "\n") {
		out = append(append(out, line), wrap(n.notes[i], width)...)
	}
	return out
}

// wrap breaks a note between words into indented lines. A word that is longer than a line is broken inside.
func wrap(note string, width int) []string {
	room := max(8, width-len(noteIndent))
	var out []string
	line := []rune{}
	flush := func() {
		if len(line) > 0 {
			out = append(out, noteIndent+string(line))
			line = []rune{}
		}
	}
	for word := range strings.FieldsSeq(note) {
		runes := []rune(word)
		if len(line) > 0 && len(line)+1+len(runes) > room {
			flush()
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for len(runes) > room-len(line) {
			n := room - len(line)
			line = append(line, runes[:n]...)
			runes = runes[n:]
			flush()
		}
		line = append(line, runes...)
	}
	flush()
	return out
}
