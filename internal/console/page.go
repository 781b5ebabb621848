package console

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

//go:embed pages
var pageFiles embed.FS

// pages returns the parsed templates by name. Each one includes the layout. They are parsed at the first call, because
// most commands show no page.
var pages = sync.OnceValue(func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(funcs).ParseFS(pageFiles, "pages/layout.html"))
	out := make(map[string]*template.Template)
	for _, name := range []string{"now", "holds", "hold", "queue", "alerts", "draft", "sessions", "session",
		"beliefs", "belief",
		"quarantine", "tools", "prompts", "catalogue", "rules", "rule", "backtest", "log",
		"passkeys", "help", "message", "confirm"} {
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(pageFiles, "pages/"+name+".html"))
	}
	return out
})

var funcs = template.FuncMap{
	"inert":  text.Inert,
	"line":   func(n int, s string) string { return text.InertLine(s, n) },
	"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"stamp":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"left":   func(t time.Time) string { return span(time.Until(t)) },
	"ago":    func(t time.Time) string { return span(time.Since(t)) },
	"rate":   func(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") },
	"secs":   func(s float64) string { return span(time.Duration(s * float64(time.Second))) },
	"count":  grouped,
	"tone":   tone,
	"many":   many,
	"entry":  position.Text,
	"digest": func(s string) string { return strings.TrimPrefix(s, "sha256:") },
}

// many formats a count with its noun.
func many(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + one + "s"
}

// grouped formats a number, with thin spaces between groups of three digits.
func grouped(v any) string {
	s := fmt.Sprint(v)
	if len(s) <= 4 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// span formats a duration in the largest unit that fits.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "over"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// tone returns the class that gives a word its color: good, wait or bad. It returns "" if the word has no color.
func tone(v any) string {
	switch fmt.Sprint(v) {
	case "allow", "approved", "supported", "ok", "active", "chains", "confirmed", "accepted":
		return "good"
	case "hold", "held", "open", "medium", "restricted", "suspicious", "stale", "expired", "folding", "restrict", "silent",
		"waiting", "changed", "added", "not accepted":
		return "wait"
	case "deny", "denied", "rejected", "critical", "high", "contradicted", "quarantined", "malicious", "blocked",
		"quarantine", "no answer", "error", "removed":
		return "bad"
	}
	return ""
}

// page is the data of a template.
type page struct {
	Title    string
	Nav      string // entry of the navigation that is marked while the page is shown
	Live     bool   // the browser fetches the page again when the index changes
	Again    bool   // a task is running, so the browser fetches the page again in a second
	User     *User
	Open     int    // number of open holds
	Indexing bool   // the ledger is not fully read yet
	Version  uint64 // version of the index just before the page read it
	Data     any

	c *Console

	// With these fields, page.sees records that the user sees texts above internal (a privileged view).
	login, kind, path string
	blind             bool // the record of a privileged view could not be stored, so sees returns false
}

func (c *Console) newPage(u *User) *page {
	c.watch()
	ready, version, _ := c.index.state()
	return &page{User: u, Version: version, Open: len(c.index.openHolds(u.May)), Indexing: !ready, c: c, kind: "other"}
}

// pageFor returns the page for a request. A privileged view is recorded with the kind of the page and with the session
// of the request.
func (c *Console) pageFor(r *http.Request, u *User) *page {
	p := c.newPage(u)
	if k, err := r.Cookie(c.cookieName()); err == nil {
		p.login = hash(k.Value)[:16]
	}
	_, p.kind, _ = strings.Cut(r.Pattern, " ")
	p.path = r.URL.Path
	return p
}

// redacted returns the text that is shown in the place of a text that a user may not read.
func redacted(as beliefs.Sensitivity) string { return "[redacted: " + as.String() + "]" }

// Say returns a text of a project, or a replacement if the user may not read the text. at are the positions of the
// entries from which the text comes. A text without positions counts as secret until the index has read the whole
// ledger.
func (p *page) Say(project, s string, at ...uint64) string {
	s, _ = p.say(project, s, at...)
	return s
}

func (p *page) say(project, s string, at ...uint64) (said string, hidden bool) {
	as := beliefs.Secret
	if !p.Indexing || len(at) > 0 {
		as = p.c.index.sensitivity(project, s, at...)
	}
	if !p.sees(project, as) {
		return redacted(as), true
	}
	return s, false
}

// withheld returns "" if the user may read the body of an entry. Otherwise it returns the text to show in its place.
func (p *page) withheld(e *streams.Entry) string {
	if as := p.c.index.sensitivityOf(e); !p.sees(e.Project, as) {
		return redacted(as)
	}
	return ""
}
