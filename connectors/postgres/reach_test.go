package postgres

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// A server that is away is named in one short line, once, without the driver's repetitions and without a secret.
func TestUnreachableServerIsNamedInOneLine(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	config := DefaultSourceConfig()
	config.DSN = "postgres://cdc:hunter2@" + address + "/shop"
	d, err := newDialer(config, "shop")
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.sql(t.Context())
	if err == nil || err.Error() != "connect to "+address+": connection refused" {
		t.Errorf("error %q", err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, connectors.ErrFatal) {
		t.Errorf("the cause is lost, or final: %v", err)
	}
	config.DSN = "postgres://cdc:hunter2@no-such-host.invalid/shop"
	if d, err = newDialer(config, "shop"); err != nil {
		t.Fatal(err)
	}
	_, err = d.sql(t.Context())
	if err == nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "no-such-host.invalid") {
		t.Errorf("error %q", err)
	}
}
