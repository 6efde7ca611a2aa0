//go:build unix && !linux

package localserver

import "syscall"

// endWithParent has no equivalent here; the guard process alone sees to it.
func endWithParent(*syscall.SysProcAttr) {}
