package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lazaret/internal/backtest"
	"lazaret/pkg/position"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// Limits of a comparison of rule sets.
const (
	maxJudged = 20_000 // events
	maxFlips  = 100    // maximum number of entries that are listed for each kind of flip (backtest.Change)
	// events from this time before a session are judged too, so that the signals have their values
	leadOfView = 24 * time.Hour
)

// judged is a page's view of a comparison of the current rule set with another one.
type judged struct {
	Project, Session string // Session empty: the whole project
	Projects         []string
	With, Rule       string
	Draft, Test      string
	Since            string
	Sinces           []string
	Report           *backtest.Report
	Flips            []flipRow
	Kinds            []kindCount
	Cut              bool   // there were more events than the limit
	Why              string // the reason why the rule sets were not compared; empty: they were
	Running          *task  // the comparison, while it runs
}

type flipRow struct {
	backtest.Flip
	Session string
}

// errFull stops reading a history when the maximum number of events was read.
var errFull = errors.New("enough events were read")

// judge compares the current rule set with another one on the events of v's project. If the comparison takes longer
// than the request, it continues after the request. An event that the two rule sets judge differently is a flip. judge
// lists the flips for which in returns true.
func (c *Console) judge(r *http.Request, p *page, v *judged, since, until time.Time,
	in func(f *backtest.Flip) bool) error {
	project, with, rule, draft := v.Project, v.With, v.Rule, v.Draft
	done, running, err := perform(c, r, p, func(ctx context.Context, t *task) (*judgement, error) {
		t.say("Another comparison runs first.")
		select {
		case c.judging <- struct{}{}:
			defer func() { <-c.judging }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		t.say("The rule sets are compiled.")
		set, bundle, err := c.rules(ctx)
		if err != nil {
			return nil, err
		}
		other, err := c.other(set, bundle, with, rule, draft)
		if err != nil {
			return nil, err
		}
		return c.compareRules(ctx, t, set, other, project, since, until)
	})
	switch v.Running = running; {
	case errors.Is(err, errTooLong):
		v.Why = "The comparison takes too long for the console: run lazaret rules backtest."
		return nil
	case err != nil || running != nil:
		return err
	}
	v.Report, v.Cut = done.Report, done.cut
	v.list(p, in)
	return nil
}

// judgement is the result of a comparison.
type judgement struct {
	*backtest.Report
	cut bool // there were more events than the limit
}

// compareRules judges the events of a project by two rule sets.
func (c *Console) compareRules(ctx context.Context, t *task, set, other *rules.Set, project string,
	since, until time.Time) (*judgement, error) {
	j, h := new(judgement), backtest.NewHistory()
	err := backtest.Ledger(ctx, c.cfg.Conn, backtest.Span{Since: since, Project: project}, func(e *streams.Entry) error {
		if !until.IsZero() && e.Time.After(until) {
			return errFull
		}
		if h.Entries == maxJudged {
			j.cut = true
			return errFull
		}
		if h.Entries%100 == 0 {
			t.say(many(h.Entries, "event") + " of at most " + grouped(maxJudged) + " have been read.")
		}
		return h.Add(e)
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, err
	}
	t.say("Both rule sets judge " + many(h.Entries, "event") + ".")
	j.Report, err = backtest.Run(ctx, set, other, h, backtest.Options{Full: true, Samples: maxJudged, Workers: 1})
	if err != nil {
		return nil, err
	}
	c.set.measured(j.Report)
	return j, nil
}

// list adds to the view the flips of the report for which in returns true. It hides texts that the user may not see.
func (v *judged) list(p *page, in func(f *backtest.Flip) bool) {
	count := make(map[backtest.Change]int)
	for _, f := range v.Report.Samples {
		if !in(&f) {
			continue
		}
		if count[f.Change]++; count[f.Change] > maxFlips {
			continue
		}
		f.Message, f.Content = p.Say(v.Project, f.Message, f.Position), p.Say(v.Project, f.Content, f.Position)
		v.Flips = append(v.Flips, flipRow{f, p.c.index.sessionOf(f.Position)})
	}
	slices.SortFunc(v.Flips, func(a, b flipRow) int { return position.Compare(a.Position, b.Position) })
	for _, k := range []backtest.Change{backtest.NewlyHeld, backtest.Tightened, backtest.Loosened, backtest.NoLongerHeld,
		backtest.NewAlert, backtest.AlertGone, backtest.OtherAlert} {
		if count[k] > 0 {
			v.Kinds = append(v.Kinds, kindCount{strings.ReplaceAll(string(k), "_", " "), count[k]})
		}
	}
}

// ask reads from the query parameters which rule sets are to be compared.
func (v *judged) ask(q url.Values) error {
	v.With, v.Rule, v.Draft = q.Get("with"), q.Get("rule"), q.Get("draft")
	if v.With == withoutRule && v.Rule == "" {
		return badRequest("Name the rule to leave out.")
	}
	return nil
}

// backtestPage compares the current rule set with another one on the latest events of a project.
func (c *Console) backtestPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &judged{Project: q.Get("project"), Since: cmp.Or(q.Get("since"), "24h"),
		Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Data = "Back-test", "rules", v
	if err := v.ask(q); err != nil {
		return "", err
	}
	var since time.Time
	for _, x := range periods {
		if v.Sinces = append(v.Sinces, x.Name); x.Name == v.Since && x.For > 0 {
			since = time.Now().Add(-x.For)
		}
	}
	if !slices.Contains(v.Sinces, v.Since) {
		return "", badRequest("The time %q is unknown: use %s.", streams.Clip(v.Since, 20), strings.Join(v.Sinces, ", "))
	}
	if v.Project == "" {
		return "backtest", nil
	}
	if streams.CheckID("project", v.Project) != nil || !p.User.May(v.Project) {
		return "", notFound("There is no project %s.", v.Project)
	}
	v.With = cmp.Or(v.With, withSame)
	return "backtest", c.judge(r, p, v, since, time.Time{}, func(*backtest.Flip) bool { return true })
}

// whatIfPage judges the events of a session again with another rule set. It first judges the project's events of the
// day before the session, so that the signals have their values.
func (c *Console) whatIfPage(r *http.Request, p *page) (string, error) {
	project, name := r.PathValue("project"), r.PathValue("session")
	s, ok := c.index.session(project, name)
	if !ok || !p.User.May(project) {
		return "", notFound("The console knows no session %s of project %s.", name, project)
	}
	v := &judged{Project: project, Session: name}
	p.Title, p.Nav, p.Data = "What if, session "+name, "sessions", v
	if err := v.ask(r.URL.Query()); err != nil || v.With == "" {
		return "backtest", err
	}
	of := make(map[uint64]bool)
	for _, at := range s.positions {
		of[at] = true
	}
	return "backtest", c.judge(r, p, v, s.First.Add(-leadOfView), s.Last,
		func(f *backtest.Flip) bool { return of[f.Position] })
}

// Choices returns the rule sets with which a user can compare the current one.
func (v *judged) Choices() [][2]string {
	return [][2]string{{withSame, "the same, to measure costs"}, {withShadow, "shadow rules in force"},
		{withoutRule, "without the rule named here"}, {withShipped, "the shipped rules"}}
}

// Costs returns the rules that were evaluated. The one with the highest cost comes first.
func (v *judged) Costs() []backtest.RuleReport {
	list := slices.Clone(v.Report.Rules)
	slices.SortStableFunc(list, func(a, b backtest.RuleReport) int {
		return cmp.Compare(int64(b.Evaluated)*b.NS, int64(a.Evaluated)*a.NS)
	})
	return list[:min(len(list), maxListed)]
}

// sessionOf returns the session of the event at a position. It returns "" if the index does not have the event.
func (x *index) sessionOf(at uint64) string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.events[at].session
}
