package broker

// session is what a connection knows of its user.
type session struct {
	user     *User    // nil: not known yet, or nobody needs to be
	exchange exchange // a login under way; nil: none
	raw      bool     // its tokens come without a header, as after SaslHandshake 0
}

// known reports whether the connection may ask for more than versions and a login.
func (s *session) known(server *Server) bool { return len(server.o.Users) == 0 || s.user != nil }

// may reports whether the user has a right.
func (s *session) may(server *Server, need right) bool {
	return len(server.o.Users) == 0 || s.user != nil && (need != writer || !s.user.ReadOnly)
}

// rawTokens reports whether the next frame is a token.
func (s *session) rawTokens() bool { return s.raw && s.exchange != nil }
