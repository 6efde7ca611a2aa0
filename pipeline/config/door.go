package config

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// HTTP says where status page, API, metrics and health are served, and to whom.
type HTTP struct {
	Listen string    `yaml:"listen"` // 127.0.0.1:8080; off
	Token  string    `yaml:"token"`  // what a caller shows as Authorization: Bearer TOKEN
	Users  []Visitor `yaml:"users"`  // no users and no token: everybody on this machine
	TLS    Pair      `yaml:"tls"`    // none: plain HTTP
}

// Visitor is somebody who may log in to the page, or show a token.
type Visitor struct {
	Name     string `yaml:"name"`
	Password string `yaml:"password"` // its hash by bcrypt
	Token    string `yaml:"token"`    // its hash: sha256: and 64 hexadecimal digits
	Role     string `yaml:"role"`     // operator | read; read
}

// The roles of a visitor.
const (
	RoleOperator = "operator"
	RoleRead     = "read"
)

// tokenPrefix begins the hash of a token.
const tokenPrefix = "sha256:"

// minToken is the length below which a token can be guessed.
const minToken = 16

// Validate checks the listener and who may use it.
func (h *HTTP) Validate() error {
	var errs []error
	if h.Token != "" && len(h.Token) < minToken {
		errs = append(errs, fmt.Errorf("token is shorter than %d characters", minToken))
	}
	if (h.TLS.Certificate == "") != (h.TLS.Key == "") {
		errs = append(errs, errors.New("tls needs both cert and key"))
	}
	names := map[string]bool{"token": true} // under which http.token logs in
	for i := range h.Users {
		u := &h.Users[i]
		if err := u.check(); err != nil {
			errs = append(errs, fmt.Errorf("users[%d]: %w", i, err))
		}
		if names[u.Name] {
			errs = append(errs, fmt.Errorf("users[%d]: name is repeated, or is token, which is kept for http.token", i))
		}
		names[u.Name] = true
	}
	switch err := checkListen(h.Listen); {
	case err == nil:
	case checkAddress(h.Listen) != nil:
		errs = append(errs, fmt.Errorf("listen %w", err))
	case h.Token == "" && len(h.Users) == 0:
		errs = append(errs, fmt.Errorf("listen is reachable from other machines and there is no token and there are no users: set http.users or http.token, or use a loopback address such as 127.0.0.1:%s", port(h.Listen)))
	}
	return errors.Join(errs...)
}

func (u *Visitor) check() error {
	if u.Role = cmp.Or(u.Role, RoleRead); u.Role != RoleOperator && u.Role != RoleRead {
		return errors.New("role is not one of operator, read")
	}
	if u.Name == "" {
		return errors.New("name is missing")
	}
	if u.Password == "" && u.Token == "" {
		return errors.New("neither password nor token; trunkline password makes what belongs there")
	}
	if u.Password != "" {
		if _, err := bcrypt.Cost([]byte(u.Password)); err != nil {
			return errors.New("password is no hash by bcrypt; trunkline password makes one")
		}
	}
	if u.Token != "" && u.TokenHash() == nil {
		return errors.New("token is not sha256: and 64 hexadecimal digits; trunkline password --token makes one")
	}
	return nil
}

// TokenHash returns the hash of the visitor's token, nil if there is none.
func (u *Visitor) TokenHash() []byte {
	digits, ok := strings.CutPrefix(u.Token, tokenPrefix)
	hash, err := hex.DecodeString(digits)
	if !ok || err != nil || len(hash) != 32 {
		return nil
	}
	return hash
}
