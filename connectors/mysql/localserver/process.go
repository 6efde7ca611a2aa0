//go:build unix

package localserver

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// process is a server that we started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

// startProcess runs the program with its output appended to logFile. It is started and waited for by one goroutine that
// keeps its thread, because on Linux the signal at the parent's death comes when the parent's thread ends.
func startProcess(program *Binaries, args []string, dir, logFile string, owner *owner) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program.Server, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = dir, program.env(), out, out
	owner.run(p.cmd)
	endWithParent(p.cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s: %w", program.Server, err)
	}
	return p, nil
}

// stop asks for a shutdown, and after the timeout kills.
func (p *process) stop(timeout time.Duration) error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
		return p.kill()
	}
}

// kill ends the server with SIGKILL and returns when it is gone. It has no children.
func (p *process) kill() error {
	p.cmd.Process.Kill()
	<-p.done
	return nil
}

// guardScript waits for the end of its input, which is the end of our process however that came, then ends the server
// and removes a temporary folder. $1: the server's pid, $2: the folder or nothing, $3: the socket's own folder or nothing.
const guardScript = `read -r _
kill -KILL "$1" 2>/dev/null
sleep 0.2
if [ -n "$2" ]; then rm -rf "$2"; fi
if [ -n "$3" ]; then rm -rf "$3"; fi`

// startGuard starts the small process that cleans up when ours is killed.
func (s *Server) startGuard() error {
	dir := ""
	if s.temporary {
		dir = s.dir
	}
	socketDir := ""
	if s.socketDir != s.dir {
		socketDir = s.socketDir
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "trunkline-guard", strconv.Itoa(s.run.cmd.Process.Pid), dir, socketDir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is not for it
	_, err := cmd.StdinPipe()                             // stays open as long as we live
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the guard process: %w", err)
	}
	s.guard = cmd
	return nil
}

// endGuard ends the guard without letting it do its work.
func (s *Server) endGuard() {
	if s.guard == nil {
		return
	}
	s.guard.Process.Kill()
	s.guard.Wait()
	s.guard = nil
}
