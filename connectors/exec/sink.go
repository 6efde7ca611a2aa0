// Package exec hands changes to a child process, and takes them from one: the way to write a sink or a source in any
// language.
//
// As a sink it promises at least once, in order: the child gets a batch as lines of JSON on its standard input, and a change counts
// as written once the child has answered for its batch on its standard output. A child that ends, that answers something
// else or not in time is started again, with the same batch. Its standard error is Trunkline's.
//
// As a source it promises what the child wrote up to its last position, exactly once, as far as the child goes on behind
// the position that it is started with. A child that ends with an error is started again by the pipeline; what it had written
// behind its last durable position was not taken. The pipeline calls both.
package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

const (
	maxAnswer = 8 << 20          // bytes of an answer
	graceTime = 10 * time.Second // for a child to end after its input has
)

// The lines that the child gets: each change as connectors.AppendLine writes it, and after those of a batch
//
//	{"commit":{"stream":"shop.public.orders/0","changes":2,"position":"17"}}
//
// to which it answers with one line, once the changes are durable or it knows why not:
//
//	{"position":"17"}                                                       all is durable
//	{"position":"17","refused":[{"offset":15,"reason":"no such customer"}]} these will never be taken, and nothing of the rest is done
//	{"error":"the disk is full"}                                            try the batch again
//
// The position is the one that was sent, so that nothing else that a program prints passes for an answer.
type answer struct {
	Position string `json:"position"`
	Refused  []struct {
		Offset int64  `json:"offset"`
		Reason string `json:"reason"`
	} `json:"refused"`
	Error string `json:"error"`
}

// reply is a line of the child, or how its output ended.
type reply struct {
	line []byte
	err  error
}

// sink is used by one goroutine; one more reads what the child says.
type sink struct {
	config  *SinkConfig
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan reply
	buf     []byte
	ended   error // why the child can't be used any more
}

func open(ctx context.Context, c *SinkConfig, _ connectors.Env) (connectors.Sink, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &sink{config: c, cmd: exec.Command(c.Command[0], c.Command[1:]...), replies: make(chan reply, 1)}
	s.cmd.Dir, s.cmd.Stderr, s.cmd.Env, s.cmd.WaitDelay = c.Dir, os.Stderr, os.Environ(), graceTime
	for name, value := range c.Environment {
		s.cmd.Env = append(s.cmd.Env, name+"="+value)
	}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Command[0], err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Command[0], err)
	}
	s.in = in
	if err := s.cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w; install it, or set command to its path: %w", err, connectors.ErrFatal)
		}
		return nil, fmt.Errorf("start %s: %w", c.Command[0], err)
	}
	go s.listen(out)
	return s, nil
}

// listen reads the child's answers until its output ends. A child that says more than it was asked waits.
func (s *sink) listen(out io.Reader) {
	defer close(s.replies)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		s.replies <- reply{line: slices.Clone(lines.Bytes())}
	}
	err := lines.Err()
	if err == nil {
		err = errors.New("it closed its standard output")
	}
	s.replies <- reply{err: err}
}

// Write sends a batch and waits for the child's answer.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ended != nil {
		return fmt.Errorf("write to %s: %w", s.config.Command[0], s.ended)
	}
	if len(b.Changes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	got, err := s.exchange(ctx, b)
	if err != nil {
		s.ended = err
		return fmt.Errorf("write to %s: %w", s.config.Command[0], err)
	}
	var a answer
	if err := json.Unmarshal(got, &a); err != nil {
		s.ended = errors.New("it answered a batch with something else than one line of JSON")
		return fmt.Errorf("write to %s: %w", s.config.Command[0], s.ended)
	}
	if a.Error != "" {
		return fmt.Errorf("write to %s: it says: %s", s.config.Command[0], a.Error)
	}
	if a.Position != string(b.Position) {
		s.ended = errors.New("it answered a batch with another position than that of the batch")
		return fmt.Errorf("write to %s: %w", s.config.Command[0], s.ended)
	}
	return s.refused(b, a)
}

// refused finds the rows that the child has named.
func (s *sink) refused(b connectors.Batch, a answer) error {
	reasons := map[int64]string{}
	for _, r := range a.Refused {
		reasons[r.Offset] = r.Reason
	}
	var rows []connectors.RowError
	for i := range b.Changes {
		if reason, ok := reasons[b.Changes[i].Offset]; ok {
			rows = append(rows, connectors.RowError{Index: i, Err: errors.New(reason)})
		}
	}
	switch {
	case len(rows) > 0:
		return &connectors.RowsError{Rows: rows}
	case len(reasons) > 0:
		return fmt.Errorf("write to %s: it refuses an offset that is not in the batch: %w", s.config.Command[0], connectors.ErrFatal)
	}
	return nil
}

// exchange writes a batch while the answer is waited for: a child may answer before it has read to the end.
func (s *sink) exchange(ctx context.Context, b connectors.Batch) ([]byte, error) {
	s.buf = s.buf[:0]
	for i := range b.Changes {
		s.buf = connectors.AppendLine(s.buf, b.Stream, &b.Changes[i])
	}
	s.buf = append(s.buf, `{"commit":{"stream":`...)
	s.buf = connectors.AppendJSONString(s.buf, []byte(b.Stream))
	s.buf = strconv.AppendInt(append(s.buf, `,"changes":`...), int64(len(b.Changes)), 10)
	s.buf = connectors.AppendJSONString(append(s.buf, `,"position":`...), b.Position)
	s.buf = append(s.buf, "}}\n"...)
	sent := make(chan error, 1)
	go func() {
		_, err := s.in.Write(s.buf)
		sent <- err
	}()
	select {
	case r, ok := <-s.replies:
		if !ok {
			r.err = errors.New("it has ended")
		}
		if r.err != nil {
			s.kill()
			<-sent
			return nil, r.err
		}
		return r.line, <-sent
	case <-ctx.Done():
		s.kill()
		<-sent
		return nil, ctx.Err()
	}
}

// kill ends the child, so that whatever waits for it goes on.
func (s *sink) kill() {
	_ = s.in.Close()
	_ = s.cmd.Process.Kill()
}

// Close closes the child's input, which is how it learns that there is no more, and waits for its end.
func (s *sink) Close(context.Context) error {
	_ = s.in.Close()
	timer := time.AfterFunc(graceTime, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	for range s.replies {
	}
	if err := s.cmd.Wait(); err != nil && s.ended == nil {
		return fmt.Errorf("end %s: %w", s.config.Command[0], err)
	}
	return nil
}
