//go:build !unix

package localserver

import (
	"errors"
	"os/exec"
	"time"
)

// errUnsupported stands for the whole package where processes cannot be run as it needs.
var errUnsupported = errors.New("run a private MariaDB server: not supported on this system")

type owner struct{}

func serverOwner() (*owner, error) { return nil, errUnsupported }

func (*owner) String() string { return "the current user" }

func (*owner) reach(string) error { return errUnsupported }

func (*owner) run(*exec.Cmd) {}

func (*owner) take(string) error { return errUnsupported }

type process struct{ done chan struct{} }

func startProcess(*Binaries, []string, string, string, *owner) (*process, error) {
	return nil, errUnsupported
}

func (*process) stop(time.Duration) error { return errUnsupported }

func (*process) kill() error { return errUnsupported }

func (s *Server) startGuard() error { return errUnsupported }

func (s *Server) endGuard() {}
