//go:build !linux

package postgres

import network "net"

// setLowWater has no equivalent that the runtime's poller honours.
func setLowWater(network.Conn, int) bool { return false }
