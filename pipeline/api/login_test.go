package api_test

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/trunkline/trunkline/pipeline/api"
)

const (
	annePassword = "correct horse: ü"
	robToken     = "rob's token, which is long"
)

// closedWorld is a daemon with users: anne may act, ben looks, rob has a token and looks.
func closedWorld(t *testing.T) (*world, *httptest.Server) {
	t.Helper()
	w := openWith(t, oneLine, true)
	hash := func(password string) []byte {
		h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	w.handler = api.New(api.Options{Pipeline: w.pipeline, Journal: w.journal, Version: "test", Audit: true, Users: []api.User{
		{Name: "anne", Password: hash(annePassword), Role: api.Operator}, {Name: "ben", Password: hash("bens password"), Role: api.Reader},
		{Name: "rob", Token: sha256.Sum256([]byte(robToken)), Role: api.Reader},
	}})
	daemon := httptest.NewServer(w.handler)
	t.Cleanup(daemon.Close)
	return w, daemon
}

// browser is a client with cookies that stays where it is sent.
func browser(t *testing.T, daemon *httptest.Server) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: daemon.Client().Transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func send(t *testing.T, c *http.Client, method, address string, form url.Values, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer
}

func TestWhoLogsInMayActByRole(t *testing.T) {
	t.Parallel()
	w, daemon := closedWorld(t)
	anne, ben := browser(t, daemon), browser(t, daemon)
	if got := send(t, anne, "GET", daemon.URL+"/", nil, "Accept", "text/html"); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/login" {
		t.Errorf("the page without a login = %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	if got := send(t, anne, "GET", daemon.URL+"/api/status", nil); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("the status without a login = %d", got.StatusCode)
	}
	if got := send(t, anne, "POST", daemon.URL+"/login", url.Values{"name": {"anne"}, "password": {"wrong"}}); got.StatusCode != http.StatusUnauthorized || len(got.Cookies()) != 0 {
		t.Errorf("a wrong password = %d with %d cookies", got.StatusCode, len(got.Cookies()))
	}
	for _, c := range []struct {
		client         *http.Client
		name, password string
	}{{anne, "anne", annePassword}, {ben, "ben", "bens password"}} {
		got := send(t, c.client, "POST", daemon.URL+"/login", url.Values{"name": {c.name}, "password": {c.password}})
		if got.StatusCode != http.StatusSeeOther || len(got.Cookies()) != 1 {
			t.Fatalf("login of %s = %d with %d cookies", c.name, got.StatusCode, len(got.Cookies()))
		}
		if cookie := got.Cookies()[0]; !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
			t.Errorf("cookie of %s: %v", c.name, cookie)
		}
	}
	pause := daemon.URL + "/api/sinks/copy/pause"
	for _, c := range []struct {
		what    string
		client  *http.Client
		method  string
		path    string
		headers []string
		want    int
	}{
		{"anne looks", anne, "GET", daemon.URL + "/api/status", nil, 200},
		{"ben looks", ben, "GET", daemon.URL + "/api/status", nil, 200},
		{"ben acts", ben, "POST", pause, nil, 403},
		{"ben reads in a group", ben, "GET", daemon.URL + "/api/topics/x/records?group=g", nil, 403},
		{"rob looks", daemon.Client(), "GET", daemon.URL + "/api/status", []string{"Authorization", "Bearer " + robToken}, 200},
		{"rob acts", daemon.Client(), "POST", pause, []string{"Authorization", "Bearer " + robToken}, 403},
		{"a wrong token", daemon.Client(), "GET", daemon.URL + "/api/status", []string{"Authorization", "Bearer " + robToken + "x"}, 401},
		{"another site in anne's browser acts", anne, "POST", pause, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another origin in anne's old browser acts", anne, "POST", pause, []string{"Origin", "https://evil.example"}, 403},
		{"another site in anne's browser looks", anne, "GET", daemon.URL + "/api/status", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"anne acts", anne, "POST", pause, nil, 200},
		{"ben logs out", ben, "POST", daemon.URL + "/api/logout", nil, 200},
		{"ben looks after that", ben, "GET", daemon.URL + "/api/status", nil, 401},
	} {
		if got := send(t, c.client, c.method, c.path, nil, c.headers...); got.StatusCode != c.want {
			t.Errorf("%s = %d, want %d", c.what, got.StatusCode, c.want)
		}
	}
	acts := readAudit(t, w)
	var said []string
	for _, a := range acts {
		said = append(said, a.Who+" "+a.Action)
	}
	want := "anne log in, ben log in, anne POST /api/sinks/copy/pause, ben POST /api/logout"
	if got := strings.Join(said, ", "); got != want {
		t.Errorf("the audit says %s, want %s", got, want)
	}
}

// readAudit reads the audit topic through a handler that asks for no login.
func readAudit(t *testing.T, w *world) []api.Act {
	t.Helper()
	w.client = api.InProcess(api.New(api.Options{Pipeline: w.pipeline, Journal: w.journal, Version: "test"}))
	var out []api.Act
	for _, r := range w.consume(t, api.AuditTopic, url.Values{}) {
		var a api.Act
		if err := json.Unmarshal(r.ValueBytes(), &a); err != nil {
			t.Fatal(err)
		}
		if a.Time.IsZero() || a.From == "" {
			t.Errorf("an act without when or where: %+v", a)
		}
		out = append(out, a)
	}
	return out
}

func TestGuessingIsSlow(t *testing.T) {
	t.Parallel()
	_, daemon := closedWorld(t)
	refused := 0
	for range 7 {
		if got := send(t, daemon.Client(), "POST", daemon.URL+"/login", url.Values{"name": {"anne"}, "password": {"guess"}}); got.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 { // at most one minute can have turned between them
		t.Error("seven guesses in a row were all looked at")
	}
}

func TestActsAreAudited(t *testing.T) {
	t.Parallel()
	w := open(t, true)
	w.client = api.InProcess(api.New(api.Options{Pipeline: w.pipeline, Journal: w.journal, Version: "test", Audit: true}))
	w.call(t, "PUT", "/api/topics/mine", api.NewTopic{Partitions: 1}, nil)
	w.refuse(t, http.StatusNotFound, "POST", "/api/sinks/none/pause", nil)
	w.produce(t, "mine", `{"value":"a row's value"}`)
	w.call(t, "POST", "/api/groups/g/reset", api.Reset{To: "earliest", Topic: "mine", DryRun: true}, nil)
	w.call(t, "POST", "/api/groups/g/reset", api.Reset{To: "earliest", Topic: "mine"}, nil)
	acts := readAudit(t, w)
	if len(acts) != 3 {
		t.Fatalf("%d acts: %+v", len(acts), acts)
	}
	if a := acts[0]; a.Action != "PUT /api/topics/mine" || a.Who != "this machine" || !strings.Contains(a.From, "command of ") || a.Error != "" {
		t.Errorf("%+v", a)
	}
	if a := acts[1]; !strings.Contains(a.Error, "no such name") {
		t.Errorf("%+v", a)
	}
	if a := acts[2]; a.Action != "POST /api/groups/g/reset" || !strings.Contains(a.Detail, `"to":"earliest"`) {
		t.Errorf("%+v", a)
	}
}
