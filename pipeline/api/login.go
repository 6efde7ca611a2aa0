package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // the login page
	"errors"
	"html/template"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Role is what somebody may do.
type Role string

// A reader sees everything and changes nothing.
const (
	Operator Role = "operator"
	Reader   Role = "read"
)

// User is somebody who may log in, or show a token.
type User struct {
	Name     string
	Password []byte            // by bcrypt; none: cannot log in
	Token    [sha256.Size]byte // the hash of it; zero: none
	Role     Role
}

const (
	cookieName = "trunkline_session"
	// sessionTime is how long a login lasts.
	sessionTime = 12 * time.Hour
	// maxSessions is how many logins are remembered; beyond it, the one that ends first is forgotten.
	maxSessions = 1000
	// loginTries is how many attempts one address, or one name, has in each loginWindow.
	loginTries  = 5
	loginWindow = time.Minute
	// maxLoginForm bounds the body of a login.
	maxLoginForm = 8 << 10
	// comparisons is how many passwords are compared at once: bcrypt takes its time.
	comparisons = 2
	// tokenUser is the name under which http.token logs in and acts.
	tokenUser = "token"
)

// person is who makes a request.
type person struct {
	name string // empty: somebody on this machine, where there is no login
	role Role
}

// session is one login.
type session struct {
	person
	ends time.Time
}

//go:embed web/login.html
var loginHTML string

// loginPage is parsed once; it shows nothing that the client sent.
var loginPage = template.Must(template.New("login").Parse(loginHTML))

// closed reports whether there is a login.
func (s *server) closed() bool { return s.Token != "" || len(s.Users) > 0 }

// identify tells who makes a request, by a token or by a session.
func (s *server) identify(r *http.Request) (person, bool) {
	if !s.closed() {
		return person{role: Operator}, true
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return s.bearer(token)
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return person{}, false
	}
	s.door.Lock()
	defer s.door.Unlock()
	found, ok := s.sessions[sha256.Sum256([]byte(cookie.Value))]
	if !ok || time.Now().After(found.ends) {
		return person{}, false
	}
	return found.person, true
}

// bearer tells whose token it is. Hashes are of one length, so that the time taken tells nothing.
func (s *server) bearer(token string) (who person, ok bool) {
	got := sha256.Sum256([]byte(token))
	want := sha256.Sum256([]byte(s.Token))
	if s.Token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
		return person{tokenUser, Operator}, true
	}
	for _, u := range s.Users {
		if u.Token != [sha256.Size]byte{} && subtle.ConstantTimeCompare(got[:], u.Token[:]) == 1 {
			who, ok = person{u.Name, u.Role}, true
		}
	}
	return who, ok
}

// open reports whether everybody may have what is at a path: that the process lives, and how to log in.
func open(path string) bool {
	return path == "/healthz" || path == "/login" || strings.HasPrefix(path, "/web/")
}

// guard lets nobody through but whom identify knows, and readers only look.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Sec-Fetch-Site"), "cross-site") && strings.HasPrefix(r.URL.Path, "/api/") {
			fail(w, http.StatusForbidden, errors.New("this API does not answer to pages of other sites"))
			return
		}
		who, known := s.identify(r)
		switch {
		case open(r.URL.Path) || known && who.role == Operator:
		case !known && r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, "login", http.StatusSeeOther)
			return
		case !known:
			w.Header().Set("WWW-Authenticate", `Bearer realm="trunkline"`)
			fail(w, http.StatusUnauthorized, errors.New("this API wants the header Authorization: Bearer TOKEN, with the token of http.token in the daemon's configuration or of a user there; a browser logs in at /login"))
			return
		case (r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Query().Get("group") != "") && r.URL.Path != "/api/logout":
			fail(w, http.StatusForbidden, errors.New("user "+who.name+" has the role read, which changes nothing: ask somebody with the role operator"))
			return
		}
		s.audited(next, who).ServeHTTP(w, r)
	})
}

// local refuses a request whose Host is not this machine: a page whose own name was pointed at 127.0.0.1 would
// otherwise be of the same origin as the API.
func (s *server) local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			fail(w, http.StatusForbidden, errors.New("this API answers only to localhost and loopback addresses"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Me tells a page who looks at it.
type Me struct {
	Name string `json:"name,omitempty"` // empty: there is no login
	Role Role   `json:"role"`
}

func (s *server) me(w http.ResponseWriter, r *http.Request) {
	who, _ := s.identify(r) // guard has seen it
	reply(w, Me{who.name, who.role})
}

// loginForm shows the form, with what went wrong before.
func (s *server) loginForm(w http.ResponseWriter, r *http.Request) { s.showLogin(w, http.StatusOK, "") }

func (s *server) showLogin(w http.ResponseWriter, code int, problem string) {
	guarded(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_ = loginPage.Execute(w, problem) // the client is gone if this does not arrive
}

// login takes a name and a password, or the name token and a token, for a cookie.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginForm)
	if err := r.ParseForm(); err != nil {
		s.showLogin(w, http.StatusBadRequest, "That could not be read.")
		return
	}
	name, password := r.PostForm.Get("name"), r.PostForm.Get("password")
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if !s.mayTry(time.Now(), "address "+host, "name "+name) {
		w.Header().Set("Retry-After", "60")
		s.showLogin(w, http.StatusTooManyRequests, "Too many attempts: try again in a minute.")
		return
	}
	who, ok := s.check(name, password)
	if !ok {
		s.Logger.Warn("login refused", "from", host)
		s.showLogin(w, http.StatusUnauthorized, "That name and password do not belong together.")
		return
	}
	s.forgive("address "+host, "name "+name)
	s.audit(r, who, "log in", "", "")
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: s.begin(who), Path: "/", MaxAge: int(sessionTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	http.Redirect(w, r, "./", http.StatusSeeOther)
}

// check compares a password. A name that nobody has takes as long as one that somebody has.
func (s *server) check(name, password string) (person, bool) {
	if name == tokenUser && s.Token != "" {
		return s.bearer(password)
	}
	s.comparing <- struct{}{}
	defer func() { <-s.comparing }()
	for _, u := range s.Users {
		if u.Name == name && len(u.Password) > 0 {
			return person{u.Name, u.Role}, bcrypt.CompareHashAndPassword(u.Password, []byte(password)) == nil
		}
	}
	for _, u := range s.Users {
		if len(u.Password) > 0 {
			_ = bcrypt.CompareHashAndPassword(u.Password, []byte(password)) // for the time that it takes
			break
		}
	}
	return person{}, false
}

// begin remembers a login and returns what its cookie holds. Only its hash is kept.
func (s *server) begin(who person) string {
	value := rand.Text()
	s.door.Lock()
	defer s.door.Unlock()
	first, now := [sha256.Size]byte{}, time.Now()
	for key, other := range s.sessions {
		if now.After(other.ends) {
			delete(s.sessions, key)
		} else if soonest, ok := s.sessions[first]; !ok || other.ends.Before(soonest.ends) {
			first = key
		}
	}
	if len(s.sessions) >= maxSessions {
		delete(s.sessions, first)
	}
	s.sessions[sha256.Sum256([]byte(value))] = session{who, now.Add(sessionTime)}
	return value
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		s.door.Lock()
		delete(s.sessions, sha256.Sum256([]byte(cookie.Value)))
		s.door.Unlock()
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	reply(w, struct {
		Done string `json:"done"`
	}{"logged out"})
}

// mayTry counts one attempt under each of the keys, and reports whether all of them have attempts left. What an attempt
// costs is counted before it is made, so that many at once win nothing.
func (s *server) mayTry(now time.Time, keys ...string) bool {
	s.door.Lock()
	defer s.door.Unlock()
	if now.Sub(s.window) > loginWindow {
		s.window = now
		clear(s.tries)
	}
	for _, key := range keys {
		if s.tries[key] >= loginTries {
			return false
		}
	}
	if len(s.tries) >= 2*maxSessions {
		return false // so many names and addresses in one minute are no people
	}
	for _, key := range keys {
		s.tries[key]++
	}
	return true
}

// forgive takes back the attempt that was a login.
func (s *server) forgive(keys ...string) {
	s.door.Lock()
	defer s.door.Unlock()
	for _, key := range keys {
		s.tries[key] = max(0, s.tries[key]-1)
	}
}
