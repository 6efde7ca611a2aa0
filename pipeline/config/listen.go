package config

import (
	"errors"
	"net"
	"strconv"
)

// checkListen accepts off, and an address that only this machine can reach: without authentication anything else would hand
// the pipeline to the network.
func checkListen(address string) error {
	if address == Off {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("is not host:port (127.0.0.1:8080) or off")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || (n == 0 && port != "0") {
		return errors.New("has no valid port: a number up to 65535")
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("is reachable from other machines: use a loopback address such as 127.0.0.1:" + port)
}
