package localcluster

import "syscall"

// procAttr lets a broker end with the test that started it, however that ended.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
