//go:build !linux

package localcluster

import "syscall"

func procAttr() *syscall.SysProcAttr { return nil }
