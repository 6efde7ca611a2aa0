package broker

import (
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// User is somebody who may use the listener.
type User struct {
	Name     string
	Password string
	ReadOnly bool // may read and keep offsets of groups, and nothing else
}

// Mechanisms of logging in.
const (
	plain       = "PLAIN"
	scramSHA256 = "SCRAM-SHA-256"
	scramSHA512 = "SCRAM-SHA-512"
)

// mechanisms names those that are offered. PLAIN shows the password to whoever listens, so it takes TLS or a network
// that ends in this machine.
func (s *Server) mechanisms() []string {
	list := []string{scramSHA256, scramSHA512}
	if s.o.TLS != nil || isLoopback(s.o.Address) {
		list = append(list, plain)
	}
	return list
}

// rawToken stands for the key of a frame that is no request but a token of a login.
const rawToken = -1

// errLogin says nothing of what was wrong.
var errLogin = errors.New("authentication did not succeed: user, password or mechanism is wrong")

// exchange is one login. step takes the client's token and returns the answer; once it returns a user the login is over.
type exchange interface {
	step(token []byte) (reply []byte, user *User, err error)
}

// loginDelay is how long the answer to a wrong login waits, so that guessing takes its time.
const loginDelay = 300 * time.Millisecond

// saslHandshake begins a login. The mechanisms are listed in any case: some clients look for theirs in the list.
func (s *Server) saslHandshake(r *request) answer {
	req := r.message.(*kmsg.SASLHandshakeRequest)
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.SupportedMechanisms = s.mechanisms()
	switch {
	case len(s.o.Users) == 0 || r.c.session.user != nil:
		resp.ErrorCode = kerr.IllegalSaslState.Code
	case !slices.Contains(resp.SupportedMechanisms, req.Mechanism):
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
	default:
		r.c.session.raw = r.version == 0
		r.c.session.exchange = s.newExchange(req.Mechanism)
	}
	return now(resp)
}

func (s *Server) newExchange(mechanism string) exchange {
	switch mechanism {
	case scramSHA256, scramSHA512:
		return &scramExchange{server: s, mechanism: mechanism}
	}
	return plainExchange{s}
}

// saslAuthenticate takes a token of a login.
func (s *Server) saslAuthenticate(r *request) answer {
	req := r.message.(*kmsg.SASLAuthenticateRequest)
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	resp.SASLAuthBytes = []byte{}
	session := &r.c.session
	if session.exchange == nil {
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return now(resp)
	}
	reply, err := session.step(req.SASLAuthBytes)
	if err != nil {
		s.logger.Warn("a Kafka client could not log in", "client", r.c.host())
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, text(errLogin)
		return answer{later: s.delayed(r.c, output{response: resp}), last: true}
	}
	resp.SASLAuthBytes = append(resp.SASLAuthBytes, reply...)
	return now(resp)
}

// rawToken takes a token that came without a header, and answers in the same way. A wrong login is answered by the end
// of the connection.
func (s *Server) rawToken(r *request) answer {
	reply, err := r.c.session.step(r.body)
	if err != nil {
		s.logger.Warn("a Kafka client could not log in", "client", r.c.host())
		return answer{later: s.delayed(r.c, output{}), last: true}
	}
	if reply == nil {
		reply = []byte{}
	}
	return answer{raw: reply}
}

func (s *session) step(token []byte) ([]byte, error) {
	reply, user, err := s.exchange.step(token)
	if err != nil {
		s.exchange = nil
		return nil, err
	}
	if user != nil {
		s.user, s.exchange = user, nil
	}
	return reply, nil
}

// delayed returns out after the delay for a wrong login.
func (s *Server) delayed(c *conn, out output) func() output {
	return func() output {
		timer := time.NewTimer(loginDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.done:
		case <-s.closing:
		}
		return out
	}
}

func (s *Server) userNamed(name string) *User {
	i := slices.IndexFunc(s.o.Users, func(u User) bool { return u.Name == name })
	if i < 0 {
		return nil
	}
	return &s.o.Users[i]
}

// plainExchange is the login with name and password (RFC 4616).
type plainExchange struct{ server *Server }

func (e plainExchange) step(token []byte) ([]byte, *User, error) {
	parts := strings.Split(string(token), "\x00")
	if len(parts) != 3 || parts[0] != "" && parts[0] != parts[1] {
		return nil, nil, errLogin
	}
	user := e.server.userNamed(parts[1])
	if user == nil || subtle.ConstantTimeCompare([]byte(user.Password), []byte(parts[2])) != 1 {
		return nil, nil, errLogin
	}
	return nil, user, nil
}
