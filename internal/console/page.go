package console

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

//go:embed pages
var pageFiles embed.FS

// pages are the parsed templates by name, each including the layout.
var pages = parsePages()

func parsePages() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(funcs).ParseFS(pageFiles, "pages/layout.html"))
	out := make(map[string]*template.Template)
	for _, name := range []string{"now", "holds", "hold", "queue", "alerts", "draft", "sessions", "session",
		"beliefs", "belief",
		"quarantine", "tools", "prompts", "catalogue", "rules", "rule", "backtest", "log",
		"passkeys", "help", "message", "confirm"} {
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(pageFiles, "pages/"+name+".html"))
	}
	return out
}

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

// grouped formats a number with thin spaces between groups of digits.
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

// span formats a duration in its largest unit.
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

// tone returns the color class of a word: good, wait, bad, or none.
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
	Nav      string // entry of the navigation to which the page belongs
	Live     bool   // the browser fetches the page again when the index changes
	Again    bool   // the browser fetches the page again in a second, because a task is running
	User     *User
	Open     int    // number of open holds
	Indexing bool   // the ledger is not fully read yet
	Version  uint64 // version of the index before the page read from it
	Data     any

	c *Console

	// page.sees records a privileged view with these fields.
	login, kind, path string
	blind             bool // a privileged view could not be recorded, so sees returns false
}

func (c *Console) newPage(u *User) *page {
	c.watch()
	ready, version, _ := c.index.state()
	return &page{User: u, Version: version, Open: len(c.index.openHolds(u.May)), Indexing: !ready, c: c, kind: "other"}
}

// pageFor is newPage for a request. Privileged views are recorded with the kind of the page and the session of
// the request.
func (c *Console) pageFor(r *http.Request, u *User) *page {
	p := c.newPage(u)
	if k, err := r.Cookie(c.cookieName()); err == nil {
		p.login = hash(k.Value)[:16]
	}
	_, p.kind, _ = strings.Cut(r.Pattern, " ")
	p.path = r.URL.Path
	return p
}

// redacted returns the replacement of a text that a user may not read.
func redacted(as beliefs.Sensitivity) string { return "[redacted: " + as.String() + "]" }

// Say returns s, a text of a project that comes from the entries at the given positions. If the user may not
// read it, Say returns its redaction. A text without a position counts as secret until the index has read the
// whole ledger.
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

// body returns an entry's body. If the user may not read it, body is nil and why is its redaction.
func (p *page) body(e *streams.Entry) (body []byte, why string) {
	if as := p.c.index.sensitivityOf(e); !p.sees(e.Project, as) {
		return nil, redacted(as)
	}
	return e.Body, ""
}
