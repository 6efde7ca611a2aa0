//go:build unix

// Package localprocess runs server programs for tests and benchmarks: on a free port of loopback, with a folder of their own.
//
// It promises that Start returns a server that answers, and that the process ends with the test, or with the test's
// process however that ends. It installs nothing: scripts/setup does. Tests call it, and trunkline bench.
package localprocess

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startTime = 90 * time.Second
	pollTime  = 30 * time.Millisecond
	attempts  = 3 // a port may be taken between the moment it was found free and the server's start
	tailBytes = 2000
)

// TB is the part of testing.TB that is used here.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
	Context() context.Context
}

// Server says how to run a program.
type Server struct {
	Program string   // a path, or a name to look for in PATH and in Folders
	Folders []string // where packages put it, beside PATH
	Missing string   // what to do when the program is not there, for the one line of the failing test
	Ports   int      // how many free ports it needs; 1

	// Args returns the command line. It may write files into the folder.
	Args func(dir string, ports []int) ([]string, error)

	Env   []string                                        // on top of the test's own
	Ready func(ctx context.Context, address string) error // nil once the server answers at its first port
}

// Process is a running server.
type Process struct {
	Address string // 127.0.0.1 and the first port
	Ports   []int
	Dir     string

	path string
	args []string
	s    Server
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs the program until the test ends.
func Start(t TB, s Server) *Process {
	t.Helper()
	p, err := Launch(t.Context(), t.TempDir(), s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.Kill)
	return p
}

// Launch runs the program in the folder until Kill.
func Launch(ctx context.Context, dir string, s Server) (*Process, error) {
	path, err := find(s)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w; %s", s.Program, err, s.Missing)
	}
	for attempt := 1; ; attempt++ {
		p := &Process{Dir: filepath.Join(dir, strconv.Itoa(attempt)), path: path, s: s}
		err = os.Mkdir(p.Dir, 0o700)
		if err == nil {
			p.Ports, err = freePorts(max(1, s.Ports))
		}
		if err == nil {
			p.Address = fmt.Sprintf("127.0.0.1:%d", p.Ports[0])
			p.args, err = s.Args(p.Dir, p.Ports)
		}
		if err == nil {
			err = p.Run(ctx)
		}
		if err == nil {
			return p, nil
		}
		if attempt == attempts {
			return nil, fmt.Errorf("start %s: %w", s.Program, err)
		}
	}
}

func find(s Server) (string, error) {
	path, err := exec.LookPath(s.Program)
	for _, dir := range s.Folders {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, s.Program))
	}
	return path, err
}

func freePorts(n int) ([]int, error) {
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}

// Run starts the server again after Kill, on the same folder and ports, and returns once it answers.
func (p *Process) Run(ctx context.Context) error {
	output := filepath.Join(p.Dir, "output")
	out, err := os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = p.Dir, out, out, append(os.Environ(), p.s.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(p.cmd.SysProcAttr)
	started, done, cmd := make(chan error, 1), make(chan struct{}), p.cmd
	p.done = done
	// On Linux the signal at the parent's death comes when the thread ends that started the child.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how a server ended that was killed says nothing
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := p.wait(ctx); err != nil {
		p.Kill()
		text, _ := os.ReadFile(output)
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(text[max(0, len(text)-tailBytes):])))
	}
	return nil
}

func (p *Process) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	for {
		err := p.s.Ready(ctx, p.Address)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("wait until it answers: %w", err)
		case <-ticker.C:
		}
	}
}

// Pid returns the id of the process, for tests that freeze it.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the server as a crash would, and returns when it is gone. Its folder stays.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}
