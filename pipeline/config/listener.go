package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Listener says who may use log.listen, and how.
type Listener struct {
	Advertise  string `yaml:"advertise"`            // host:port that clients are told; default: the address that they reached
	Users      []User `yaml:"users"`                // none: everybody on this machine
	ListenTLS  Pair   `yaml:"listen_tls"`           // none: plain TCP
	AutoCreate *bool  `yaml:"auto_create"`          // whether a topic that a client names comes into being; true
	Foreign    bool   `yaml:"allow_foreign_writes"` // lets clients write topics that a source writes
	Fsync      string `yaml:"fsync"`                // always: clients hear of a record once it is on disk; background: once it is written; always
}

// What fsync can be.
const (
	FsyncAlways     = "always"
	FsyncBackground = "background"
)

// User is somebody who may use the listener.
type User struct {
	Name     string `yaml:"name"`
	Password string `yaml:"password"`
	Access   string `yaml:"access"` // read | write; write
}

// Pair is a certificate with its key, both in files.
type Pair struct {
	Certificate string `yaml:"cert"`
	Key         string `yaml:"key"`
}

// minPassword is the length below which a password of the listener is refused.
const minPassword = 8

func (l *Listener) validate(listen string) error {
	var errs []error
	if (l.ListenTLS.Certificate == "") != (l.ListenTLS.Key == "") {
		errs = append(errs, errors.New("listen_tls needs both cert and key"))
	}
	if l.Fsync != "" && l.Fsync != FsyncAlways && l.Fsync != FsyncBackground {
		errs = append(errs, errors.New("fsync is not one of always, background"))
	}
	names := map[string]bool{}
	for i, u := range l.Users {
		switch {
		case u.Name == "" || names[u.Name]:
			errs = append(errs, fmt.Errorf("users[%d]: name is missing or repeated", i))
		case len(u.Password) < minPassword:
			errs = append(errs, fmt.Errorf("users[%d]: the password is shorter than %d characters", i, minPassword))
		}
		if access := cmp.Or(u.Access, "write"); access != "read" && access != "write" {
			errs = append(errs, fmt.Errorf("users[%d]: access is not read or write", i))
		}
		names[u.Name] = true
	}
	if l.Advertise != "" {
		if err := checkAddress(l.Advertise); err != nil {
			errs = append(errs, fmt.Errorf("advertise %w", err))
		}
	}
	switch err := checkListen(listen); {
	case err == nil:
	case len(l.Users) > 0 && checkAddress(listen) == nil:
	case checkAddress(listen) == nil:
		errs = append(errs, fmt.Errorf("listen is reachable from other machines and no users are named: name some under log.users, or use a loopback address such as 127.0.0.1:%s", port(listen)))
	default:
		errs = append(errs, fmt.Errorf("listen %w", err))
	}
	return errors.Join(errs...)
}

// checkAddress accepts host:port.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("is not host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || (n == 0 && port != "0") {
		return errors.New("has no valid port: a number up to 65535")
	}
	return nil
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address) // checkAddress has seen it
	return p
}
