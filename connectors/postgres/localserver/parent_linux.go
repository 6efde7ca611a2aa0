package localserver

import "syscall"

// endWithParent asks for an immediate shutdown of the server when the thread that started it ends.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
