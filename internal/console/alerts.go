package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lazaret/internal/cli"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Limits of the page of alerts.
const (
	maxAlertGroups = 200
	maxAlertRows   = 100
)

// periods are the time filters, shortest first.
var periods = []struct {
	Name string
	For  time.Duration
}{{"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"all", 0}}

type alertsView struct {
	Severity, Rule, Tool, Project, Since, Where string
	One                                         bool // shows only one group: the alerts of one rule about one tool
	Severities, Sinces, Projects                []string
	Groups                                      []*alertGroup
	Rows                                        []alertRow // the alerts, if One is set
	Total, More                                 int        // number of matching alerts; groups that are not listed
	Silenced                                    int        // matching alerts that are hidden
	All                                         bool       // silenced alerts are shown too
	Silences                                    []silenceRow
	From, Next                                  int // number of alerts on earlier pages; From of the next page, 0: none
	query                                       url.Values
}

// alertGroup has the alerts that one rule raised about one tool.
type alertGroup struct {
	Tool, Rule, Effect string
	Severity           string // the highest
	Count              int
	Last               alertRow
	Link               string
}

var severities = []string{"critical", "high", "medium", "low", "info"}

func rank(severity string) int {
	if i := slices.Index(severities, severity); i >= 0 {
		return len(severities) - i
	}
	return 0
}

func (c *Console) alertsPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &alertsView{Severity: q.Get("severity"), Rule: q.Get("rule"), Tool: q.Get("tool"), Project: q.Get("project"),
		Since: cmp.Or(q.Get("since"), "all"),
		Where: strings.TrimSpace(q.Get("where")), One: q.Has("rule"), Severities: severities,
		Projects: c.index.listProjects(p.User.May), query: q}
	p.Title, p.Nav, p.Live, p.Data = "Alerts", "alerts", true, v
	var since time.Time
	known := false
	for _, x := range periods {
		v.Sinces = append(v.Sinces, x.Name)
		if x.Name == v.Since {
			if known = true; x.For > 0 {
				since = time.Now().Add(-x.For)
			}
		}
	}
	if !known {
		return "", badRequest("The time filter %q is unknown: use %s.", v.Since, strings.Join(v.Sinces, ", "))
	}
	if s := q.Get("from"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return "", badRequest("%q is not a position of an alert.", streams.Clip(s, 20))
		}
		v.From = n
	}
	where, err := cli.NewFilter(v.Where, streams.Alert{})
	if err != nil {
		return "", badRequest("The search cannot be read: %s", strings.TrimPrefix(err.Error(), "--where: "))
	}
	v.All, v.Silences = q.Get("silenced") == "show", c.index.silencesNow(p.User.May)
	err = c.collect(p, v, since, where)
	if err != nil {
		return "", badRequest("The search fails: %v", err)
	}
	return "alerts", nil
}

func (c *Console) collect(p *page, v *alertsView, since time.Time, where *cli.Filter) error {
	may := func(project string) bool { return (v.Project == "" || v.Project == project) && p.User.May(project) }
	groups := make(map[[2]string]*alertGroup)
	var failed error
	fields, quotes := fieldsOf(where), where.Names("message") || where.Names("error")
	most := p.searched(v.Project)
	silenced := silencer(v.Silences)
	c.index.eachAlert(may, func(a *alertRow) bool {
		if v.Severity != "" && a.Severity != v.Severity || v.One && (a.Rule != v.Rule || a.Tool != v.Tool) ||
			!since.IsZero() && a.Time.Before(since) {
			return true
		}
		if v.Where != "" {
			sought := a
			if quotes && !beliefs.Secret.Within(most) {
				sought = c.index.shown(a, most)
			}
			ok, err := where.MatchFields(fields(sought))
			if err != nil {
				failed = err
				return false
			}
			if !ok {
				return true
			}
		}
		if !v.All && silenced(a) {
			v.Silenced++
			return true
		}
		v.Total++
		if v.One {
			if v.Total > v.From && len(v.Rows) < maxAlertRows {
				v.Rows = append(v.Rows, *a)
			}
			return true
		}
		k := [2]string{a.Tool, a.Rule}
		g := groups[k]
		if g == nil {
			g = &alertGroup{Tool: a.Tool, Rule: a.Rule, Effect: a.Effect, Severity: a.Severity, Last: *a}
			groups[k] = g
			v.Groups = append(v.Groups, g)
		}
		if g.Count++; rank(a.Severity) > rank(g.Severity) {
			g.Severity = a.Severity
		}
		return true
	})
	slices.SortStableFunc(v.Groups, func(a, b *alertGroup) int { return cmp.Compare(rank(b.Severity), rank(a.Severity)) })
	if len(v.Groups) > maxAlertGroups {
		v.More, v.Groups = len(v.Groups)-maxAlertGroups, v.Groups[:maxAlertGroups]
	}
	for _, g := range v.Groups {
		g.Link = v.with("rule", g.Rule, "tool", g.Tool, "from", "")
	}
	if v.Next = v.From + len(v.Rows); v.Next >= v.Total {
		v.Next = 0
	}
	return failed
}

// alertFields are the fields that a search may use, by their JSON names. For the fields detail, path and
// observed_event_ids, the functions return empty values, because the index does not store these fields.
var alertFields = map[string]func(a *alertRow) any{
	"id": func(a *alertRow) any { return a.ID }, "rule": func(a *alertRow) any { return a.Rule },
	"rule_digest": func(a *alertRow) any { return a.RuleDigest }, "group": func(a *alertRow) any { return a.Group },
	"severity": func(a *alertRow) any { return a.Severity }, "project": func(a *alertRow) any { return a.Project },
	"agent": func(a *alertRow) any { return a.Agent }, "session": func(a *alertRow) any { return a.Session },
	"message": func(a *alertRow) any { return a.Message }, "effect": func(a *alertRow) any { return a.Effect },
	"mode": func(a *alertRow) any { return a.Mode }, "exception": func(a *alertRow) any { return a.Exception },
	"error": func(a *alertRow) any { return a.Error }, "count": func(a *alertRow) any { return float64(a.Count) },
	"time":    func(a *alertRow) any { return a.Time.Format(time.RFC3339Nano) },
	"subject": func(a *alertRow) any { return map[string]any{"kind": a.Subject.Kind, "id": a.Subject.ID} },
	"detail":  func(*alertRow) any { return map[string]any{} },
	"path":    func(*alertRow) any { return []any{} }, "observed_event_ids": func(*alertRow) any { return []any{} },
}

// fieldsOf returns a function that reads from an alert only the fields that the filter where uses. This is fast, which
// is necessary because a page searches up to 100,000 alerts.
func fieldsOf(where *cli.Filter) func(a *alertRow) map[string]any {
	env := make(map[string]any)
	used := make(map[string]func(a *alertRow) any)
	for name, get := range alertFields {
		if where.Names(name) {
			used[name] = get
		}
	}
	return func(a *alertRow) map[string]any {
		for name, get := range used {
			env[name] = get(a)
		}
		return env
	}
}

// with returns the URL of the page with some query parameters changed. pairs has the names and the new values of these
// parameters, alternately.
func (v *alertsView) with(pairs ...string) string {
	q := maps.Clone(v.query)
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Set(pairs[i], pairs[i+1]); pairs[i] == "from" && pairs[i+1] == "" {
			q.Del("from")
		}
	}
	return "/alerts?" + q.Encode()
}

// Back returns the URL of the page that lists all groups of alerts.
func (v *alertsView) Back() string {
	q := make(url.Values)
	for k, x := range v.query {
		if k != "rule" && k != "tool" && k != "from" {
			q[k] = x
		}
	}
	return "/alerts?" + q.Encode()
}

// WithSilenced returns the URL of the page that also shows silenced alerts.
func (v *alertsView) WithSilenced() string { return v.with("silenced", "show") }

// Times returns the durations that a user can choose to silence alerts.
func (v *alertsView) Times() (out []string) {
	for _, x := range silenceTimes {
		out = append(out, x.Name)
	}
	return out
}

// Shown returns the projects of the listed alerts.
func (v *alertsView) Shown() (out []string) {
	for i := range v.Rows {
		if !slices.Contains(out, v.Rows[i].Project) {
			out = append(out, v.Rows[i].Project)
		}
	}
	return out
}

// Older returns the URL of the page with the next, older alerts of the group.
func (v *alertsView) Older() string { return v.with("from", fmt.Sprint(v.Next)) }
