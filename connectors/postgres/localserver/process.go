//go:build unix

package localserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a postmaster that we started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

// startProcess runs the program with its output appended to logFile. It is started and waited for by one goroutine that
// keeps its thread, because on Linux the signal at the parent's death comes when the parent's thread ends.
func startProcess(program string, args []string, dir, logFile string, owner *owner) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
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
		return nil, fmt.Errorf("run %s: %w", program, err)
	}
	return p, nil
}

// stop asks for a fast shutdown, and after the timeout for an immediate one.
func (p *process) stop(timeout time.Duration) error {
	p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
	}
	p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
		return p.kill()
	}
}

// kill ends the postmaster and its children with SIGKILL and returns when all are gone.
func (p *process) kill() error {
	children, err := childrenOf(p.cmd.Process.Pid)
	p.cmd.Process.Kill()
	<-p.done
	if err != nil {
		return fmt.Errorf("kill postgresql: %w", err)
	}
	for _, pid := range children {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	deadline := time.Now().Add(stopTimeout)
	for _, pid := range children {
		for syscall.Kill(pid, 0) == nil && !isZombie(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("kill postgresql: process %d does not end", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// childrenOf lists the processes whose parent is pid. ps is on every unix.
func childrenOf(pid int) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var children []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(fields[0])
			if err == nil {
				children = append(children, child)
			}
		}
	}
	return children, nil
}

// isZombie reports a dead process whose new parent has not waited for it yet, as in a container without an init.
func isZombie(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// guardScript waits for the end of its input, which is the end of our process however that came, then ends the server
// and removes a temporary folder. $1: the server's pid, $2: the folder or nothing, $3: the file that the
// server removes last (its pid may stay as a zombie in a container without an init).
const guardScript = `read -r _
kill -QUIT "$1" 2>/dev/null
n=0
while [ -e "$3" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
if [ -n "$2" ]; then rm -rf "$2"; fi`

// startGuard starts the small process that cleans up when ours is killed.
func (s *Server) startGuard() error {
	dir := ""
	if s.temporary {
		dir = s.dir
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "trunkline-guard", strconv.Itoa(s.run.cmd.Process.Pid), dir,
		filepath.Join(s.dataDir(), "postmaster.pid"))
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
