package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nuid"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// maxSilences is the maximum number of silences in the index. If there are more, those that have expired are dropped
// first.
const maxSilences = 10_000

// silenceRow is a silence of alerts, as recorded in the ledger.
type silenceRow struct {
	streams.Silence
	ID, Project string
	From        time.Time
	At          uint64 // position of its entry
}

// takeSilence adds a silence to the index, or removes one that was ended. The caller holds mu.
func (x *index) takeSilence(e *streams.Entry) {
	s, err := streams.Read[streams.SilenceEntry](e)
	if err != nil {
		return
	}
	if s.Silence.Ends != "" {
		delete(x.silences, [2]string{e.Project, s.Silence.Ends})
		return
	}
	if len(x.silences) >= maxSilences {
		for k, o := range x.silences {
			if !e.Time.Before(o.Expires) {
				delete(x.silences, k)
			}
		}
	}
	if len(x.silences) < maxSilences {
		x.silences[[2]string{e.Project, s.ID}] = silenceRow{s.Silence, s.ID, e.Project, e.Time, e.Position()}
	}
}

// silencesNow returns the silences that are in effect, of the projects for which may returns true. The one that ends
// first comes first.
func (x *index) silencesNow(may func(project string) bool) []silenceRow {
	now := time.Now()
	return selected(x, x.silences,
		func(s silenceRow) (silenceRow, bool) { return s, may(s.Project) && now.Before(s.Expires) },
		func(a, b silenceRow) int { return cmp.Or(a.Expires.Compare(b.Expires), strings.Compare(a.ID, b.ID)) })
}

// silencer returns a function. The function reports whether one of the silences in list applies to an alert now.
func silencer(list []silenceRow) func(a *alertRow) bool {
	by := make(map[[2]string][]silenceRow)
	for _, s := range list {
		k := [2]string{s.Project, s.Rule}
		by[k] = append(by[k], s)
	}
	return func(a *alertRow) bool {
		if len(by) == 0 {
			return false
		}
		return slices.ContainsFunc(by[[2]string{a.Project, a.Rule}], func(s silenceRow) bool {
			return s.Covers(a.Rule, a.Agent)
		})
	}
}

// silenceTimes are the durations that a user can choose on the page.
var silenceTimes = []struct {
	Name string
	For  time.Duration
}{{"1 hour", time.Hour}, {"8 hours", 8 * time.Hour}, {"1 day", 24 * time.Hour}, {"7 days", 7 * 24 * time.Hour},
	{"30 days", 30 * 24 * time.Hour}}

// silence publishes a silence of alerts to the ledger, or the end of one.
func (c *Console) silence(w http.ResponseWriter, r *http.Request) {
	u := c.user(r)
	if u == nil {
		c.fail(w, r, http.StatusUnauthorized, "Sign in", "The session is over: sign in again.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	project := r.PostFormValue("project")
	if !u.Approver() || !u.May(project) {
		c.fail(w, r, http.StatusForbidden, "Forbidden", "You may not silence alerts of this project.")
		return
	}
	s := &streams.Silence{By: u.Name, Ends: r.PostFormValue("ends")}
	now := time.Now()
	if s.Ends == "" {
		i := slices.IndexFunc(silenceTimes, func(x struct {
			Name string
			For  time.Duration
		}) bool {
			return x.Name == r.PostFormValue("for")
		})
		if i < 0 {
			c.fail(w, r, http.StatusBadRequest, "Invalid request", "Choose a duration.")
			return
		}
		s.Rule, s.Agent = r.PostFormValue("rule"), r.PostFormValue("agent")
		s.Owner, s.Reason = strings.TrimSpace(r.PostFormValue("owner")), strings.TrimSpace(r.PostFormValue("reason"))
		s.Expires = now.Add(silenceTimes[i].For).UTC().Truncate(time.Second)
	}
	id := nuid.Next()
	err := streams.CheckID("project", project)
	if err == nil {
		err = s.Check(now)
	}
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, "The silence cannot be recorded", err.Error())
		return
	}
	body, err := streams.Marshal(streams.Control{ID: id, Project: project, Silence: s})
	if err == nil {
		_, err = c.js.Publish(r.Context(), streams.ControlSubject(streams.PartitionOf(project)), body)
	}
	if err != nil {
		c.cfg.Log.Warn("a silence cannot be recorded", "err", err)
		c.fail(w, r, http.StatusServiceUnavailable, "The pipeline does not answer",
			"The silence is not recorded: "+err.Error())
		return
	}
	c.index.await(r.Context(), 2*time.Second, func() bool {
		_, known := c.index.silences[[2]string{project, cmp.Or(s.Ends, id)}]
		return known == (s.Ends == "")
	})
	http.Redirect(w, r, "/alerts?project="+url.QueryEscape(project), http.StatusSeeOther)
}

// Line returns a text of a silence on one line, in a form that is safe to display.
func (s silenceRow) Line(t string) string { return text.InertLine(t, 160) }
