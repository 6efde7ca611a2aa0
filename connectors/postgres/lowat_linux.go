package postgres

import (
	network "net"
	"syscall"
)

// setLowWater sets how many bytes have to be there before a reader is woken (SO_RCVLOWAT). It returns false where that
// has no effect.
func setLowWater(conn network.Conn, bytes int) bool {
	tcp, ok := conn.(*network.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	failed := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, bytes)
	})
	return failed == nil && err == nil
}
