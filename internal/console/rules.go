package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/rules"
)

type rulesView struct {
	Digest           string
	Mode, Search     string
	Sort             string
	Modes            []string
	Rows             []ruleRow
	Strangers        []ruleRow // rules that raised alerts but are not in the current rule set
	Exceptions       []exceptionRow
	Measured         int    // number of events with which the costs were measured; 0: the costs were not measured
	Total            int    // number of rules in the set
	Project, Session string // values in the form for the comparison of rule sets
	Projects         []string
}

// ruleRow is a rule with its counts in the projects that the user may see.
type ruleRow struct {
	ID, Title, Severity, Effect, Mode, Pack string
	ruleCount
	Cost *ruleCost
}

type exceptionRow struct {
	ID, Owner string
	Rules     []string
	Expires   time.Time
	Over      bool
}

func (c *Console) ruleRows(p *page, set *rules.Set) (rows, strangers []ruleRow) {
	counts := c.index.ruleCounts(p.User.May)
	c.set.mu.Lock()
	costs := c.set.costs
	c.set.mu.Unlock()
	if len(p.User.Projects) > 0 {
		costs = nil // the costs may have been measured on the events of a project that the user may not see
	}
	for _, r := range set.Rules() {
		row := ruleRow{ID: r.ID, Title: r.Title, Severity: r.Severity, Effect: r.Effect, Mode: r.Mode, Pack: r.Pack}
		if n := counts[r.ID]; n != nil {
			row.ruleCount = *n
			delete(counts, r.ID)
		}
		if k, ok := costs[r.ID]; ok {
			row.Cost = &k
		}
		rows = append(rows, row)
	}
	for id, n := range counts {
		strangers = append(strangers, ruleRow{ID: id, ruleCount: *n})
	}
	slices.SortFunc(strangers, func(a, b ruleRow) int { return strings.Compare(a.ID, b.ID) })
	return rows, strangers
}

func (c *Console) rulesPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &rulesView{Mode: q.Get("mode"), Search: strings.ToLower(strings.TrimSpace(q.Get("q"))),
		Sort: cmp.Or(q.Get("sort"), "fired"), Modes: rules.Modes, Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Live, p.Data = "Rules", "rules", true, v
	set, _, err := c.rules(r.Context())
	if err != nil {
		return "", err
	}
	v.Digest, v.Total = set.Digest(), len(set.Rules())
	var all []ruleRow
	all, v.Strangers = c.ruleRows(p, set)
	v.Strangers = v.Strangers[:min(len(v.Strangers), maxListed)]
	for i := range all {
		row := &all[i]
		if v.Mode != "" && row.Mode != v.Mode ||
			v.Search != "" && !strings.Contains(strings.ToLower(row.ID+" "+row.Title+" "+row.Pack), v.Search) {
			continue
		}
		v.Rows = append(v.Rows, *row)
	}
	by := map[string]func(r *ruleRow) int64{
		"fired":     func(r *ruleRow) int64 { return int64(r.Fired + r.Shadow + r.Excepted) },
		"caught":    func(r *ruleRow) int64 { return int64(r.Caught()) },
		"smothered": func(r *ruleRow) int64 { return int64(r.Approved) },
		"cost": func(r *ruleRow) int64 {
			if r.Cost == nil {
				return 0
			}
			return int64(r.Cost.Evaluated) * r.Cost.NS
		},
	}
	key, ok := by[v.Sort]
	if !ok {
		return "", badRequest("Rules cannot be sorted by %q.", v.Sort)
	}
	slices.SortStableFunc(v.Rows, func(a, b ruleRow) int { return cmp.Compare(key(&b), key(&a)) })
	v.Rows = v.Rows[:min(len(v.Rows), 2*maxListed)]
	now := time.Now()
	for _, x := range set.Exceptions {
		v.Exceptions = append(v.Exceptions, exceptionRow{x.Id, x.Owner, x.Rules, x.Expires, !now.Before(x.Expires)})
	}
	c.set.mu.Lock()
	if c.set.costs != nil && len(p.User.Projects) == 0 {
		v.Measured = c.set.events
	}
	c.set.mu.Unlock()
	return "rules", nil
}

// Sorts returns the available sort orders.
func (v *rulesView) Sorts() []string { return []string{"fired", "caught", "smothered", "cost"} }

type ruleView struct {
	ruleRow
	*rules.Rule
	Condition, Each string
	Alerts          []alertRow // latest alerts
	Exceptions      []exceptionRow
	Projects        []string
}

func (c *Console) rulePage(r *http.Request, p *page) (string, error) {
	id := r.PathValue("rule")
	set, _, err := c.rules(r.Context())
	if err != nil {
		return "", err
	}
	rule := set.Rule(id)
	if rule == nil {
		return "", notFound("The rule set in force has no such rule.")
	}
	v := &ruleView{Rule: rule, Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Data = "Rule "+id, "rules", v
	rows, _ := c.ruleRows(p, set)
	v.ruleRow = rows[slices.IndexFunc(rows, func(x ruleRow) bool { return x.ID == id })]
	if rule.When != nil {
		v.Condition = rule.When.Source
	}
	if rule.ForEach != nil {
		v.Each = rule.ForEach.Source
	}
	c.index.eachAlert(p.User.May, func(a *alertRow) bool {
		if a.Rule == id {
			v.Alerts = append(v.Alerts, *a)
		}
		return len(v.Alerts) < 20
	})
	for _, x := range set.Exceptions {
		if slices.Contains(x.Rules, id) {
			v.Exceptions = append(v.Exceptions, exceptionRow{x.Id, x.Owner, x.Rules, x.Expires, time.Now().After(x.Expires)})
		}
	}
	return "rule", nil
}

// AlertsOf returns the URL of the page that lists the alerts of a rule.
func (r ruleRow) AlertsOf() string { return "/alerts?where=" + url.QueryEscape(`rule == "`+r.ID+`"`) }
