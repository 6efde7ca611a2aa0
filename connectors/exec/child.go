package exec

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

const (
	sourceGrace = 3 * time.Second // for a child to end after it was told to
	sourceDelay = 2 * time.Second // for what it has started to let go of its output
	maxStderr   = 8 << 10         // bytes of a line of standard error that are logged
	linesAhead  = 256             // lines of a child that wait to be read
)

// errLine is a line above the limit.
var errLine = errors.New("a line of its output is longer than a row may be (max_record_bytes)")

// child is a running program whose output is read line by line. Its methods belong to one goroutine, but for tell.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	lines chan reply // closed after the last one, which has an error
	stop  chan struct{}
	told  sync.WaitGroup

	mu     sync.Mutex
	next   []byte        // guarded by mu: what is to be written to the child, the newest alone; nil: nothing
	wake   chan struct{} // capacity 1
	ending sync.Once
}

// start runs the program. first is the first line of its input.
func start(c *SourceConfig, environment []string, first []byte, limit int, logger *slog.Logger) (*child, error) {
	p := &child{
		cmd: exec.Command(c.Command[0], c.Command[1:]...), lines: make(chan reply, linesAhead), stop: make(chan struct{}),
		next: first, wake: make(chan struct{}, 1),
	}
	p.cmd.Dir, p.cmd.Env, p.cmd.WaitDelay = c.Dir, slices.Concat(os.Environ(), environment), sourceDelay
	for name, value := range c.Environment {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stderr = &lineLogger{logger: logger}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		p.out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w; install it, or set command to its path: %w", err, connectors.ErrFatal)
		}
		return nil, fmt.Errorf("start %s: %w", c.Command[0], err)
	}
	go p.listen(limit)
	p.told.Go(p.talk)
	return p, nil
}

// listen reads lines until the output ends or the child is closed.
func (p *child) listen(limit int) {
	defer close(p.lines)
	scanner := bufio.NewScanner(p.out)
	scanner.Buffer(nil, limit)
	give := func(r reply) bool {
		select {
		case p.lines <- r:
			return true
		case <-p.stop:
			return false
		}
	}
	for scanner.Scan() {
		if !give(reply{line: slices.Clone(scanner.Bytes())}) {
			return
		}
	}
	err := scanner.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = errLine
	} else if err == nil {
		err = io.EOF
	}
	give(reply{err: err})
}

// tell has a line written to the child. One that was not written yet is left out: the newest says more. A child that does
// not read its input is not waited for.
func (p *child) tell(line []byte) {
	p.mu.Lock()
	p.next = line
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// talk writes to the child until it is closed or has closed its input.
func (p *child) talk() {
	for {
		p.mu.Lock()
		line := p.next
		p.next = nil
		p.mu.Unlock()
		if line != nil {
			if _, err := p.in.Write(line); err != nil {
				return
			}
			continue
		}
		select {
		case <-p.wake:
		case <-p.stop:
			return
		}
	}
}

// end tells the child to end, by the end of its input and a signal, waits for that, and says how it went.
func (p *child) end(ctx context.Context) error {
	var err error
	p.ending.Do(func() {
		close(p.stop)
		_ = p.in.Close()
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // where there is no such signal, the end of the input has to do
		timer := time.AfterFunc(sourceGrace, p.kill)
		defer timer.Stop()
		defer context.AfterFunc(ctx, p.kill)()
		for range p.lines {
		}
		p.told.Wait()
		err = p.cmd.Wait()
	})
	return err
}

// kill ends the child, and the waiting for what it has started.
func (p *child) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.out.Close()
}

// wait is for a child whose output has ended.
func (p *child) wait(ctx context.Context) error {
	var err error
	p.ending.Do(func() {
		close(p.stop)
		_ = p.in.Close()
		timer := time.AfterFunc(sourceGrace, p.kill)
		defer timer.Stop()
		defer context.AfterFunc(ctx, p.kill)()
		p.told.Wait()
		err = p.cmd.Wait()
	})
	return err
}

// lineLogger logs what a child prints on standard error.
type lineLogger struct {
	logger *slog.Logger
	line   []byte
}

func (l *lineLogger) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		l.line = append(l.line, part[:min(len(part), max(0, maxStderr-len(l.line)))]...)
		if ended && len(bytes.TrimSpace(l.line)) > 0 {
			l.logger.Info("the program says", "text", string(l.line))
		}
		if ended {
			l.line = l.line[:0]
		}
		b = rest
	}
	return n, nil
}
