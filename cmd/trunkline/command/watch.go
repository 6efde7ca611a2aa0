package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
)

// What a terminal is told: another screen without a cursor, back again, and to draw from the top.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l"
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenTop   = "\x1b[H"
	screenLine  = "\x1b[K\r\n" // clears what the frame before had behind it
	screenRest  = "\x1b[J"
)

// errNobodyRuns ends a watch over a log that nothing moves in. Looking on would only keep a daemon from starting.
var errNobodyRuns = errors.New("no daemon runs, so there is nothing to watch: trunkline run starts one")

// watch shows the status again and again: on a terminal in place, until q or Ctrl-C; elsewhere as lines.
func (a *app) watch(ctx context.Context, client *api.Client, every time.Duration) error {
	show := a.statusLines
	if a.json {
		show = a.statusJSON
	}
	out, isFile := a.out.(*os.File)
	if isFile && !a.json && term.IsTerminal(int(out.Fd())) {
		leave, keys := a.takeTerminal(out)
		defer leave()
		show = func(s pipeline.Status) error { return drawStatus(out, s) }
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		go func() { // a read from a terminal cannot be ended, so nobody waits for it
			if quits(keys) {
				end()
			}
		}()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		var s pipeline.Status
		err := client.Call(ctx, "GET", "/api/status", nil, &s)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !s.Running {
			return errNobodyRuns
		}
		if err := show(s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// quits reads keys until one says so; false if there are no more keys.
func quits(keys io.Reader) bool {
	key := make([]byte, 1)
	for {
		if _, err := io.ReadFull(keys, key); err != nil {
			return false
		}
		if key[0] == 'q' || key[0] == 'Q' || key[0] == 3 { // 3 is Ctrl-C where the terminal makes no signal of it
			return true
		}
	}
}

// takeTerminal prepares the terminal and returns what gives it back.
func (a *app) takeTerminal(out *os.File) (leave func(), keys io.Reader) {
	fmt.Fprint(out, screenEnter)
	leave = func() { fmt.Fprint(out, screenLeave) }
	in, ok := a.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return leave, strings.NewReader("")
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return leave, strings.NewReader("")
	}
	return func() {
		_ = term.Restore(int(in.Fd()), before) // the terminal is gone if this fails
		fmt.Fprint(out, screenLeave)
	}, in
}

// drawStatus draws one frame in the size of the terminal.
func drawStatus(out *os.File, s pipeline.Status) error {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 1 {
		width, height = 80, 24
	}
	_, err = fmt.Fprint(out, screenTop+strings.Join(frame(s, width, height), screenLine)+"\x1b[K"+screenRest)
	return err
}

// statusLines prints a line for each source and sink.
func (a *app) statusLines(s pipeline.Status) error {
	for _, m := range append(s.Sources, s.Sinks...) {
		line := fmt.Sprintf("%s %s %s: %s, rows %s, rows/s %s, behind %s, lag %s, dead letters %s", s.Time.Local().Format(time.TimeOnly), m.Role, m.Name, m.State,
			count(m.Rows), count(int64(m.RowsPerSec)), count(m.LagRows), lag(m), count(m.DeadLetters))
		if reason := why(m); reason != "" {
			line += ": " + reason
		}
		if _, err := fmt.Fprintln(a.out, line); err != nil {
			return err
		}
	}
	return nil
}

// statusJSON prints one line.
func (a *app) statusJSON(s pipeline.Status) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(s)
}
