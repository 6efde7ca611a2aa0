package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
)

// newLogger returns a logger that writes plain lines for people or JSON lines for machines.
func newLogger(w io.Writer, level slog.Level, asJSON bool) *slog.Logger {
	if asJSON {
		return slog.New(distinct{Handler: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})})
	}
	return slog.New(distinct{Handler: &console{w: w, level: level, mu: &sync.Mutex{}}})
}

// distinct drops an attribute whose key an outer logger has set to the same value: whoever logs names its source, and
// so does whoever hands it the logger.
type distinct struct {
	slog.Handler
	set []slog.Attr
}

func (d distinct) known(a slog.Attr) bool {
	return slices.ContainsFunc(d.set, func(s slog.Attr) bool { return s.Equal(a) })
}

// WithAttrs keeps what is new.
func (d distinct) WithAttrs(attrs []slog.Attr) slog.Handler {
	fresh := slices.DeleteFunc(slices.Clone(attrs), d.known)
	return distinct{Handler: d.Handler.WithAttrs(fresh), set: append(slices.Clone(d.set), fresh...)}
}

// WithGroup begins a new set of keys.
func (d distinct) WithGroup(name string) slog.Handler {
	return distinct{Handler: d.Handler.WithGroup(name)}
}

// Handle writes the line without what is known.
func (d distinct) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if !d.known(a) {
			out.AddAttrs(a)
		}
		return true
	})
	return d.Handler.Handle(ctx, out)
}

// isTerminal reports whether a person is looking.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// console is a slog.Handler for people: the time of day, who speaks, what happened, and the rest as key=value.
type console struct {
	w     io.Writer
	level slog.Level
	mu    *sync.Mutex // of w, shared by all handlers made from this one
	attrs []slog.Attr
	group string
}

// speakers are the keys that say whom a line is about. The first found stands in front.
var speakers = []string{"source", "sink"}

// longValue is where a value is cut; JSON lines have it whole.
const longValue = 300

// Enabled reports whether lines of the level are shown.
func (c *console) Enabled(_ context.Context, level slog.Level) bool { return level >= c.level }

// WithAttrs returns a handler that adds attrs to each line.
func (c *console) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *c
	out.attrs = slices.Clone(c.attrs)
	for _, a := range attrs {
		out.attrs = append(out.attrs, slog.Attr{Key: c.group + a.Key, Value: a.Value})
	}
	return &out
}

// WithGroup returns a handler that puts name in front of the keys that follow.
func (c *console) WithGroup(name string) slog.Handler {
	out := *c
	out.group += name + "."
	return &out
}

// Handle writes one line.
func (c *console) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(c.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, slog.Attr{Key: c.group + a.Key, Value: a.Value})
		return true
	})
	var b bytes.Buffer
	b.WriteString(r.Time.Local().Format("15:04:05  "))
	if r.Level >= slog.LevelWarn {
		b.WriteString(strings.ToLower(r.Level.String()) + "  ")
	}
	speaker := ""
	for _, key := range speakers {
		if i := slices.IndexFunc(attrs, func(a slog.Attr) bool { return a.Key == key }); i >= 0 && speaker == "" {
			speaker = fmt.Sprintf("%s %s: ", key, attrs[i].Value)
		}
	}
	b.WriteString(speaker + r.Message)
	for _, a := range attrs {
		if speaker != "" && slices.Contains(speakers, a.Key) || a.Equal(slog.Attr{}) {
			continue
		}
		text := a.Value.Resolve().String()
		if runes := []rune(text); len(runes) > longValue && a.Key != "error" {
			text = string(runes[:longValue]) + "…"
		}
		if a.Key == "error" {
			b.WriteString(": " + strings.ReplaceAll(text, "\n", "; "))
			continue
		}
		if text == "" || strings.ContainsAny(text, " \t\n\"=") {
			text = strconv.Quote(text)
		}
		b.WriteString("  " + a.Key + "=" + text)
	}
	b.WriteByte('\n')
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.w.Write(b.Bytes())
	return err
}
