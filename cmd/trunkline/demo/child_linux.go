package demo

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the kernel end the line when the demo is gone, and keeps Ctrl-C from reaching it first.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
