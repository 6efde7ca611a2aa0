//go:build unix && !linux

package localprocess

import "syscall"

// endWithParent has no equivalent here.
func endWithParent(*syscall.SysProcAttr) {}
