package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// Role is the role of a console user.
type Role string

// The roles. A user with RoleApprover may send decisions. The role alone gives a decision no effect: the arbiter
// accepts it only if a pinned key signed it.
const (
	RoleViewer   Role = "viewer"   // reads
	RoleApprover Role = "approver" // reads, and sends signed decisions
)

// User is the user of a console session.
type User struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Projects are the projects that the user may see; empty means all.
	Projects []string `json:"projects,omitzero"`
	// Ceiling is the highest sensitivity of texts that the user may read. The zero value means internal.
	Ceiling beliefs.Sensitivity `json:"ceiling,omitzero"`
}

// May reports whether the user may see a project.
func (u *User) May(project string) bool {
	return len(u.Projects) == 0 || slices.Contains(u.Projects, project)
}

// Approver reports whether the user may send decisions.
func (u *User) Approver() bool { return u.Role == RoleApprover }

func (u *User) check() error {
	if u.Name == "" || len(u.Name) > 64 || strings.ContainsFunc(u.Name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("the user's name %q is not 1 to 64 printable ASCII characters", u.Name)
	}
	if u.Role != RoleViewer && u.Role != RoleApprover {
		return fmt.Errorf("role %q is unknown: use %s or %s", u.Role, RoleViewer, RoleApprover)
	}
	for _, p := range u.Projects {
		if err := streams.CheckID("project", p); err != nil {
			return err
		}
	}
	return nil
}

// Limits of logins and sessions.
const (
	LoginExpires   = 15 * time.Minute // validity of an unused link, unless the caller gives another one
	MaxLogin       = 24 * time.Hour   // maximum validity of an unused link
	SessionExpires = 12 * time.Hour
	SessionIdle    = 2 * time.Hour
	maxSessionsOf  = 1000 // concurrent sessions; the oldest ends first
)

// grant is an issued login code that was not used yet.
type grant struct {
	User
	Hash    string    `json:"hash"` // SHA-256 of the code, hex
	Expires time.Time `json:"expires"`
}

type grants struct {
	Grants []grant `json:"grants"`
}

// LoginsFile returns the path of the file with the unused login codes of a data folder.
func LoginsFile(data string) string { return filepath.Join(data, "console", "logins.json") }

func urlFile(data string) string { return filepath.Join(data, "console", "url") }

// noteURL stores the console's URL for LastURL.
func noteURL(data, at string) error {
	if err := os.MkdirAll(filepath.Dir(urlFile(data)), 0o700); err != nil {
		return err
	}
	return files.Write(urlFile(data), []byte(at+"\n"), 0o600)
}

// LastURL returns the URL of the console that was started last with a data folder. If none was started, it returns the
// URL of DefaultListen.
func LastURL(data string) string {
	b, err := os.ReadFile(urlFile(data))
	if u, err2 := url.Parse(strings.TrimSpace(string(b))); err == nil && err2 == nil && u.Host != "" {
		return u.String()
	}
	return "http://localhost" + DefaultListen[strings.LastIndexByte(DefaultListen, ':'):]
}

// NewLogin issues a code with which a user can sign in once. The code is valid for the time lasts. If lasts is
// longer than MaxLogin, NewLogin returns an error. The file stores only the SHA-256 of the code.
func NewLogin(data string, u User, lasts time.Duration) (code string, err error) {
	if err := u.check(); err != nil {
		return "", err
	}
	if lasts > MaxLogin {
		return "", fmt.Errorf("a login link may be valid for at most %v, not for %v", MaxLogin, lasts)
	}
	if err := os.MkdirAll(filepath.Dir(LoginsFile(data)), 0o700); err != nil {
		return "", err
	}
	code = random()
	err = changeGrants(data, func(g *grants) {
		g.Grants = append(g.Grants, grant{User: u, Hash: hash(code), Expires: time.Now().Add(lasts).UTC()})
	})
	return code, err
}

// errNoLogin means that no unused, valid login has this code.
var errNoLogin = errors.New("the link was used before, has expired, or was never issued")

// takeLogin returns the user of a login code. The code cannot be used again.
func takeLogin(data, code string) (*User, error) { return findLogin(data, code, true) }

// lookLogin returns the user of a login code. The code can still be used.
func lookLogin(data, code string) (*User, error) { return findLogin(data, code, false) }

func findLogin(data, code string, use bool) (*User, error) {
	var found *User
	err := changeGrants(data, func(g *grants) {
		for i := range g.Grants {
			if g.Grants[i].Hash == hash(code) {
				u := g.Grants[i].User
				found = &u
				if use {
					g.Grants = slices.Delete(g.Grants, i, i+1)
				}
				return
			}
		}
	})
	if err == nil && found == nil {
		err = errNoLogin
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// changeGrants changes LoginsFile under its lock, and removes expired codes from it.
func changeGrants(data string, f func(g *grants)) error {
	file := LoginsFile(data)
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return errNoLogin
	}
	return files.Locked(file, func() error {
		g := new(grants)
		b, err := os.ReadFile(file)
		if err == nil {
			err = streams.Unmarshal(b, g)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the logins in %s: %w", file, err)
		}
		now := time.Now()
		g.Grants = slices.DeleteFunc(g.Grants, func(x grant) bool { return !now.Before(x.Expires) })
		f(g)
		if b, err = streams.Marshal(g); err != nil {
			return err
		}
		return files.Write(file, append(b, '\n'), 0o600)
	})
}

func random() string {
	b := make([]byte, 32)
	rand.Read(b) // cannot fail, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b)
}

func hash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// login is a session of a user in a browser.
type login struct {
	user       *User
	began, saw time.Time
	register   string // challenge of a passkey registration in progress
}

// logins are the sessions of the console's users. They are not stored, so they end when the process ends.
type logins struct {
	now func() time.Time

	mu sync.Mutex
	by map[string]*login // by the hash of the session cookie; guarded by mu
}

func newLogins() *logins { return &logins{now: time.Now, by: make(map[string]*login)} }

func (l *logins) begin(u *User) (cookie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for k, s := range l.by {
		if s.over(now) {
			delete(l.by, k)
		}
	}
	for len(l.by) >= maxSessionsOf {
		oldest := ""
		for k, s := range l.by {
			if oldest == "" || s.began.Before(l.by[oldest].began) {
				oldest = k
			}
		}
		delete(l.by, oldest)
	}
	cookie = random()
	l.by[hash(cookie)] = &login{user: u, began: now, saw: now}
	return cookie
}

func (s *login) over(now time.Time) bool {
	return now.Sub(s.began) >= SessionExpires || now.Sub(s.saw) >= SessionIdle
}

// find returns the user of a session cookie, or nil. person says that a person made the request. Only such a request
// extends the session. Automatic requests, such as refreshes of a page, do not keep the session alive.
func (l *logins) find(cookie string, person bool) *User {
	if cookie == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k, now := hash(cookie), l.now()
	s := l.by[k]
	if s == nil {
		return nil
	}
	if s.over(now) {
		delete(l.by, k)
		return nil
	}
	if person {
		s.saw = now
	}
	return s.user
}

func (l *logins) end(cookie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by, hash(cookie))
}

// cookieName returns the name of the session cookie. The name contains the port, because all ports of a host share
// their cookies.
func (c *Console) cookieName() string {
	if c.secure() {
		return "__Host-lazaret"
	}
	return "lazaret-" + c.port
}

func (c *Console) cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: c.cookieName(), Value: value, Path: "/", HttpOnly: true, Secure: c.secure(),
		SameSite: http.SameSiteStrictMode, MaxAge: age}
}

// user returns the signed-in user of a request, or nil.
func (c *Console) user(r *http.Request) *User {
	k, err := r.Cookie(c.cookieName())
	if err != nil {
		return nil
	}
	return c.logins.find(k.Value, r.Header.Get("HX-Request") == "" && r.URL.Path != "/events")
}

// login starts a session for a login code. Then it redirects to a page. The page's address is never taken from the
// request.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" {
		c.fail(w, r, http.StatusUnauthorized, "Sign in",
			"Open the login link that the terminal printed, or make a new one: lazaret console login NAME.")
		return
	}
	if r.Method != http.MethodGet { // HEAD, which the mux routes as GET
		http.Error(w, "a link signs in with GET", http.StatusMethodNotAllowed)
		return
	}
	if p := r.Header.Get("Sec-Purpose") + r.Header.Get("Purpose"); strings.Contains(p, "prefetch") {
		http.Error(w, "a login link must not be prefetched", http.StatusServiceUnavailable)
		return
	}
	take := takeLogin
	asked := r.Header.Get("Sec-Fetch-Site")
	otherSite := asked == "cross-site" || asked == "same-site"
	if otherSite {
		take = lookLogin
	}
	u, err := take(c.cfg.Data, code)
	if err != nil {
		if !errors.Is(err, errNoLogin) {
			c.cfg.Log.Error("logins cannot be read", "err", err)
		}
		c.fail(w, r, http.StatusUnauthorized, "This link cannot be used to sign in",
			errNoLogin.Error()+". Make a new one: lazaret console login NAME.")
		return
	}
	if otherSite { // a link on another site must not replace the session that the user has
		p := &page{Title: "Sign in as " + u.Name + "?", Data: code, c: c}
		c.render(w, http.StatusOK, "confirm", p)
		return
	}
	c.cfg.Log.Info("signed in", "user", u.Name, "role", u.Role)
	http.SetCookie(w, c.cookie(c.logins.begin(u), int(SessionExpires/time.Second)))
	c.watch()
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if k, err := r.Cookie(c.cookieName()); err == nil {
		c.logins.end(k.Value)
	}
	http.SetCookie(w, c.cookie("", -1))
	w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// guard sets the security headers of every response. It refuses a request whose Host header is not that of the console.
// It also refuses a request other than GET and HEAD if it does not come from a page of this console.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		// with no-referrer, the console's own forms would have the Origin "null"
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), publickey-credentials-get=(self), "+
			"publickey-credentials-create=(self)")
		h.Set("Cache-Control", "no-store")
		if !c.ours(r.Host) { // after DNS rebinding, another host name leads to this address
			http.Error(w, "the console has no such host name", http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !c.sameOrigin(r) {
			c.render(w, http.StatusForbidden, "message", &page{Title: "Forbidden", Data: "The request comes from another site.",
				c: c})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin reports whether the request's headers say that it comes from a page of this console. Every browser sends
// an Origin header with a POST. So without an Origin header, sameOrigin returns false.
func (c *Console) sameOrigin(r *http.Request) bool {
	if s := r.Header.Get("Sec-Fetch-Site"); s != "" && s != "same-origin" {
		return false
	}
	return slices.Contains(c.origins, r.Header.Get("Origin"))
}

func (c *Console) ours(host string) bool {
	return slices.ContainsFunc(c.origins, func(o string) bool { _, h, _ := strings.Cut(o, "://"); return h == host })
}

// challenge stores c as the challenge for the registration of a passkey in a session. It returns the challenge that the
// session had before, which may be empty.
func (l *logins) challenge(cookie, c string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.by[hash(cookie)]
	if s == nil {
		return ""
	}
	was := s.register
	s.register = c
	return was
}
