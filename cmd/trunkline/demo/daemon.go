package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// daemon is trunkline run as a process of its own, as a user would start it.
type daemon struct {
	self   string
	config string
	output string // the file that takes what it prints
	http   string
	cmd    *exec.Cmd
	done   chan error // of the running process
	ended  chan error // a process that ended without being asked
}

func newDaemon(self, config, output, http string) (*daemon, error) {
	if self == "" {
		path, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		self = path
	}
	return &daemon{self: self, config: config, output: output, http: http, ended: make(chan error, 1)}, nil
}

func (d *daemon) start() error {
	file, err := os.OpenFile(d.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the line's output: %w", err)
	}
	defer file.Close()
	cmd := exec.Command(d.self, "run", "-f", d.config)
	cmd.Stdout, cmd.Stderr = file, file
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the line: %w", err)
	}
	d.cmd, d.done = cmd, make(chan error, 1)
	go func(cmd *exec.Cmd, done chan<- error) {
		err := cmd.Wait()
		if !killed(cmd.ProcessState) {
			select {
			case d.ended <- err:
			default:
			}
		}
		done <- err
	}(cmd, d.done)
	return nil
}

// killed reports an end by SIGKILL, which only the demo sends.
func killed(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// killAndRestart ends the process the hard way and returns its pid.
func (d *daemon) killAndRestart() (int, error) {
	pid := d.cmd.Process.Pid
	d.kill()
	return pid, d.start()
}

func (d *daemon) kill() {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Kill()
	<-d.done
	d.cmd = nil
}

// stop lets the process drain.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the line: %w", err)
	}
	select {
	case err := <-d.done:
		d.cmd = nil
		if err != nil {
			return fmt.Errorf("stop the line: %w: see %s", err, d.output)
		}
		return nil
	case <-time.After(30 * time.Second):
		return errors.New("stop the line: it did not drain within 30 s")
	}
}

// status is the part of GET /api/status that the demo shows.
type status struct {
	Sources []struct {
		Name  string `json:"name"`
		State string `json:"state"`
	} `json:"sources"`
	Topics []struct {
		Name    string `json:"name"`
		Records int64  `json:"records"`
	} `json:"topics"`
	Sinks []struct {
		Name    string `json:"name"`
		State   string `json:"state"`
		LagRows int64  `json:"lag_rows"`
		Reason  string `json:"reason"`
	} `json:"sinks"`
}

func (d *daemon) status(ctx context.Context) (status, error) {
	var s status
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.http+"/api/status", nil)
	if err != nil {
		return s, fmt.Errorf("ask the line for its status: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, fmt.Errorf("ask the line for its status: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("read the line's status: %w", err)
	}
	return s, nil
}

// freeAddress returns the address if nobody listens there, else one with a free port.
func freeAddress(wish string) (string, error) {
	listener, err := net.Listen("tcp", wish)
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
