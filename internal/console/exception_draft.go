package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"lazaret/internal/stage"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/ruletest"
	"lazaret/streams"
)

// maxGiven is the maximum number of events in a drafted test.
const maxGiven = 12

// Wrong returns the URL of the page that drafts an exception for the alert, for a user who takes it for a false one.
func (a alertRow) Wrong() string {
	return "/exceptions/draft?" + url.Values{"project": {a.Project}, "entry": {strconv.FormatUint(a.At, 10)},
		"rule": {a.Rule}}.Encode()
}

// draftView is a draft of an exception for a false alert, with a test of the exception.
type draftView struct {
	Alert           alertRow
	Exception, Test string
	Passed          bool
	Failures        []string
	Running         *task  // the test, while it runs
	Why             string // why there is no test
	WhatIf          string // URL of the page that judges the session again with the exception
}

// draftPage makes a draft of an exception for a false alert. The exception is limited to the alert's agent and tool.
// The page also makes a test that plays the events of the session up to the alert, and runs this test.
func (c *Console) draftPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	project, rule := q.Get("project"), q.Get("rule")
	at, err := strconv.ParseUint(q.Get("entry"), 10, 64)
	if err != nil || streams.CheckID("project", project) != nil || !p.User.May(project) {
		return "", notFound("There is no such alert.")
	}
	v := new(draftView)
	p.Title, p.Nav, p.Data = "This was wrong", "alerts", v
	found := false
	c.index.eachAlert(func(x string) bool { return x == project }, func(a *alertRow) bool {
		if found = a.At == at && a.Rule == rule; found {
			v.Alert = *a
		}
		return !found
	})
	if !found {
		return "", notFound("The console knows no such alert.")
	}
	set, bundle, err := c.rules(r.Context())
	if err != nil {
		return "", err
	}
	known := set.Rule(rule)
	if known == nil {
		return "", notFound("The active rule set has no such rule: a third-party group raised the alert.")
	}
	e, err := stage.ReadEntry(r.Context(), c.js, at)
	if err != nil {
		return "", err
	}
	id := "wrong-" + strconv.FormatUint(at, 36)
	when := "event.agent == " + strconv.Quote(v.Alert.Agent)
	if v.Alert.Tool != "" && slices.Contains(known.On, string(streams.TypeAction)) {
		when += " && action.tool == " + strconv.Quote(v.Alert.Tool)
	}
	v.Exception, err = asYAML(yaml.MapSlice{{Key: "exceptions", Value: []yaml.MapSlice{{{Key: "id", Value: id},
		{Key: "rules", Value: []string{rule}}, {Key: "when", Value: when}, {Key: "owner", Value: p.User.Name},
		{Key: "reason", Value: "The alert was wrong: say why."},
		{Key: "expires", Value: time.Now().AddDate(0, 3, 0).Format(time.DateOnly)}}}}})
	if err != nil {
		return "", err
	}
	if v.Alert.Session != "" {
		v.WhatIf = "/whatif/" + url.PathEscape(project) + "/" + url.PathEscape(v.Alert.Session) + "?" +
			url.Values{"with": {withDraft}, "draft": {v.Exception}}.Encode()
	}
	given, err := c.given(r.Context(), p, project, v.Alert.Session, e.Src)
	if err != nil {
		v.Why = err.Error()
		return "draft", nil
	}
	v.Test, err = asYAML(yaml.MapSlice{{Key: "tests", Value: []yaml.MapSlice{{
		{Key: "name", Value: "the alert was wrong, " + id},
		{Key: "given", Value: given}, {Key: "fires", Value: yaml.MapSlice{{Key: rule,
			Value: yaml.MapSlice{{Key: "exception", Value: id}}}}}}}}})
	if err != nil {
		return "", err
	}
	exception, test := v.Exception, v.Test
	failures, running, err := perform(c, r, p, func(ctx context.Context, t *task) ([]string, error) {
		t.say("The test runs.")
		return try(ctx, bundle, known.Pack, exception, test)
	})
	if errors.Is(err, errTooLong) {
		failures, err = []string{"The test takes too long for the console: run lazaret rules test."}, nil
	}
	v.Failures, v.Running, v.Passed = failures, running, err == nil && running == nil && len(failures) == 0
	return "draft", err
}

func asYAML(v any) (string, error) {
	b, err := yaml.MarshalWithOptions(v, yaml.UseLiteralStyleIfMultiline(true))
	return string(b), err
}

// try adds a draft of an exception to a rule set and runs a test on it. It returns what failed in the test.
func try(ctx context.Context, bundle []byte, pack, exception, test string) (failures []string, err error) {
	src, err := rules.Open(bundle)
	if err != nil {
		return nil, err
	}
	files, err := addExceptions(src, exception)
	if err != nil {
		return nil, err
	}
	name := pack + "/drafted.test.yaml"
	files[name] = test
	b, err := rules.PackFiles(files)
	if err == nil {
		src, err = rules.Open(b)
	}
	if err != nil {
		return nil, err
	}
	rep, err := ruletest.RunWith(ctx, src, ruletest.Options{Run: regexp.MustCompile("^" + regexp.QuoteMeta(name))})
	if err != nil {
		return []string{err.Error()}, ctx.Err()
	}
	for _, f := range rep.Failures {
		failures = append(failures, f.Text)
	}
	if len(failures) == 0 && rep.Passed != 1 {
		failures = append(failures, "the test did not run")
	}
	return failures, nil
}

// given returns the events of a session up to a position of the ledger, in the form that a test of rules has.
func (c *Console) given(ctx context.Context, p *page, project, session string, at uint64) ([]yaml.MapSlice, error) {
	s, ok := c.index.session(project, session)
	if !ok {
		return nil, fmt.Errorf("the event belongs to no session that the console knows")
	}
	end := slices.Index(s.positions, at)
	if end < 0 {
		return nil, fmt.Errorf("the event is older than the console's index")
	}
	var out []yaml.MapSlice
	for i := end; i >= 0 && len(out) < maxGiven; i-- {
		e, err := stage.ReadEntry(ctx, c.js, s.positions[i])
		if err != nil {
			return nil, fmt.Errorf("an event of the session cannot be read: %w", err)
		}
		if e.Stage != streams.StageIngest {
			continue
		}
		if why := p.withheld(&e); why != "" {
			return nil, fmt.Errorf("you may not see an event of the session: %s", why)
		}
		key, doc, agent, err := testEvent(&e)
		if err != nil {
			return nil, err
		}
		if doc == nil {
			if i == end {
				return nil, fmt.Errorf("tests for events of type %s must be written by hand", e.Type)
			}
			continue
		}
		out = append(out, yaml.MapSlice{{Key: "agent", Value: agent}, {Key: "session", Value: session},
			{Key: key, Value: doc}})
	}
	slices.Reverse(out)
	return out, nil
}

// testEvent returns an entry in the form that a test of rules has. doc is nil if tests do not need entries of this
// type.
func testEvent(e *streams.Entry) (key string, doc yaml.MapSlice, agent string, err error) {
	put := func(k string, v any) {
		if v != "" {
			doc = append(doc, yaml.MapItem{Key: k, Value: v})
		}
	}
	switch e.Type {
	case streams.TypeObservation:
		o, err := streams.Read[streams.ObservationEntry](e)
		if err != nil {
			return "", nil, "", err
		}
		var all []string
		for _, b := range o.Blocks {
			all = append(all, b.Text)
		}
		put("origin", string(o.Origin))
		put("tool", o.Tool)
		put("source", o.Source)
		put("text", strings.Join(all, "\n"))
		return "observation", doc, o.Agent, nil
	case streams.TypeMemory:
		m, err := streams.Read[streams.MemoryEntry](e)
		if err != nil {
			return "", nil, "", err
		}
		put("origin", string(m.Origin))
		put("inherited", string(m.Inherited))
		put("key", m.Key)
		put("category", m.Category)
		put("source", m.Source)
		put("text", m.Content)
		return "memory", doc, m.Agent, nil
	case streams.TypeAction:
		a, err := streams.Read[streams.ActionEntry](e)
		if err != nil {
			return "", nil, "", err
		}
		put("tool", a.Tool)
		put("level", int(a.Level))
		var args map[string]any
		if len(a.Args) > 0 {
			if err := streams.Unmarshal(a.Args, &args); err != nil {
				return "", nil, "", err
			}
			put("args", args)
		}
		return "action", doc, a.Agent, nil
	}
	return "", nil, "", nil
}
