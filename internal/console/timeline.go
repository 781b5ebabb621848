package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits of the pages of sessions.
const (
	maxListed   = 200  // rows of a list, also on pages of tools and rules
	maxSteps    = 150  // entries on one page of a timeline
	maxStepText = 4000 // bytes of text per step
)

type sessionsView struct {
	Project, Search string
	Projects        []string
	Rows            []sessionRow
	More            int // number of matching sessions that are not listed
}

func (c *Console) sessionsPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &sessionsView{Project: q.Get("project"), Search: strings.ToLower(strings.TrimSpace(q.Get("q"))),
		Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Live, p.Data = "Sessions", "sessions", true, v
	for _, s := range c.index.listSessions(p.User.May) {
		if v.Project != "" && s.Project != v.Project ||
			v.Search != "" && !strings.Contains(strings.ToLower(s.Name+" "+strings.Join(s.Agents, " ")), v.Search) {
			continue
		}
		if len(v.Rows) == maxListed {
			v.More++
			continue
		}
		v.Rows = append(v.Rows, s)
	}
	return "sessions", nil
}

type sessionView struct {
	sessionRow
	Steps    []step
	Earlier  int // number of entries before those on this page, which end the previous page
	Later    int // number of entries after the shown ones
	Newer    int // end of the next page
	Lost     int // number of entries of the session that the index has dropped
	MayStart bool
}

// step is one line of a session's timeline.
type step struct {
	At    uint64
	ID    string // event id
	Time  time.Time
	Kind  string // read, believed, recalled, proposed, decided, done, alert, session
	Title string
	Text  string
	Word  string // a verdict, severity or belief state
	Notes []string
	Link  string
}

func (c *Console) sessionPage(r *http.Request, p *page) (string, error) {
	project, name := r.PathValue("project"), r.PathValue("session")
	s, ok := c.index.session(project, name)
	if !ok || !p.User.May(project) {
		return "", notFound("The console knows no session %s of project %s. An older one is in the log: lazaret report %s",
			name, project, name)
	}
	v := &sessionView{sessionRow: s, Lost: s.dropped}
	p.Title, p.Nav, p.Data = "Session "+name, "sessions", v
	to := len(s.positions)
	if q := r.URL.Query().Get("to"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 1 {
			return "", badRequest("%q is not the number of an entry.", streams.Clip(q, 20))
		}
		to = min(n, to)
	}
	from := max(0, to-maxSteps)
	v.Earlier, v.Later, v.Newer = from, len(s.positions)-to, min(to+maxSteps, len(s.positions))
	for _, at := range s.positions[from:to] {
		e, err := stage.ReadEntry(r.Context(), c.js, at)
		if err != nil {
			if r.Context().Err() != nil {
				return "", err
			}
			v.Steps = append(v.Steps, step{At: at, Kind: "session", Title: "an entry that is not in the ledger any more"})
			continue
		}
		v.Steps = append(v.Steps, p.steps(&e, project)...)
	}
	return "session", nil
}

// steps returns the lines of one entry. If the user may not read the entry's body, there is only one line, which says
// so.
func (p *page) steps(e *streams.Entry, project string) []step {
	at := step{At: e.Position(), Time: e.Time}
	if why := p.withheld(e); why != "" {
		at.Kind, at.Title, at.Text = kindOf(e.Type), string(e.Type), why
		return []step{at}
	}
	var out []step
	var err error
	switch e.Type {
	case streams.TypeObservation:
		out, err = told(e, at, tellRead)
	case streams.TypeMemory:
		out, err = told(e, at, tellMemory)
	case streams.TypeRecall:
		out, err = told(e, at, tellRecall)
	case streams.TypeDecision:
		out, err = told(e, at, func(d *streams.DecisionEntry, s step) []step {
			s.Kind, s.Title, s.Text, s.ID = "proposed", "the agent decided", d.Summary, d.ID
			s.Notes = append(s.Notes, many(len(d.Beliefs), "belief")+" cited")
			return []step{s}
		})
	case streams.TypeAction:
		out, err = told(e, at, func(a *streams.ActionEntry, s step) []step {
			s.Kind, s.Title, s.Text, s.ID, s.Word = "proposed", a.Tool, string(a.Args), a.ID, a.Level.String()
			return []step{s}
		})
	case streams.TypeVerdict:
		out, err = told(e, at, func(v *streams.VerdictEntry, s step) []step { return tellVerdict(v, s, project) })
	case streams.TypeHoldState:
		out, err = told(e, at, func(h *streams.HoldStateEntry, s step) []step {
			s.Kind, s.Title, s.Word, s.Text, s.Link = "decided", "hold "+h.Hold, h.State, h.Reason.Text, "/holds/"+project+"/"+
				h.Hold
			return []step{s}
		})
	case streams.TypeOutcome:
		out, err = told(e, at, func(o *streams.OutcomeEntry, s step) []step {
			s.Kind, s.Title, s.Text, s.Word, s.ID = "done", "outcome of "+o.Action, o.Content, o.Status, o.ID
			return []step{s}
		})
	case streams.TypeRejected:
		out, err = told(e, at, func(x *streams.RejectedEntry, s step) []step {
			s.Kind, s.Title, s.Text, s.Word = "read", string(x.Kind)+" "+string(x.Origin)+" refused", string(x.Code)+": "+
				x.Reason, "rejected"
			return []step{s}
		})
	case streams.TypeAlerts:
		out, err = told(e, at, func(a *streams.AlertsEntry, s step) []step { return tellAlerts(a.Alerts, s) })
	case streams.TypeAssessment:
		out, err = told(e, at, func(a *streams.AssessmentEntry, s step) []step { return tellAlerts(a.Alerts, s) })
	case streams.TypeSession:
		out, err = told(e, at, func(x *streams.SessionEntry, s step) []step {
			s.Kind, s.Title = "session", "session "+x.Phase
			return []step{s}
		})
	default:
		at.Kind, at.Title = "session", string(e.Type)
		return []step{at}
	}
	if err != nil {
		at.Kind, at.Title, at.Text = "session", string(e.Type), "the entry cannot be read: "+err.Error()
		return []step{at}
	}
	for i := range out {
		out[i].Text = streams.Clip(out[i].Text, maxStepText)
	}
	return out
}

func kindOf(t streams.Type) string {
	switch t {
	case streams.TypeAction, streams.TypeMemory, streams.TypeDecision:
		return "proposed"
	case streams.TypeRecall:
		return "recalled"
	case streams.TypeVerdict, streams.TypeHoldState:
		return "decided"
	case streams.TypeOutcome:
		return "done"
	case streams.TypeAlerts, streams.TypeAssessment:
		return "alert"
	}
	return "read"
}

func told[T any](e *streams.Entry, s step, tell func(*T, step) []step) ([]step, error) {
	b, err := streams.Read[T](e)
	if err != nil {
		return nil, err
	}
	return tell(b, s), nil
}

func tellRead(o *streams.ObservationEntry, s step) []step {
	s.Kind, s.ID, s.Title = "read", o.ID, string(o.Origin)
	if o.Origin == beliefs.OriginUser {
		s.Title = "the user said"
	}
	if o.Tool != "" {
		s.Title = o.Tool
	}
	if o.Source != "" && o.Source != o.Tool {
		s.Notes = append(s.Notes, o.Source)
	}
	var all []string
	for _, b := range o.Blocks {
		all = append(all, b.Text)
	}
	s.Text = strings.Join(all, "\n")
	out := []step{s}
	for _, cl := range o.Claims {
		if cl.Kind == beliefs.Envelope {
			continue
		}
		out = append(out, believed(&cl.Belief, s))
	}
	return out
}

func believed(b *streams.BeliefRef, s step) step {
	return step{At: s.At, Time: s.Time, Kind: "believed", Title: "what it says", Word: b.Axes.Truth.String(),
		Notes: []string{b.Axes.Retrieval.String(), b.Axes.Security.String(), fmt.Sprintf("confidence %.2f", b.Confidence)},
		Link:  b.ID}
}

func tellMemory(m *streams.MemoryEntry, s step) []step {
	s.Kind, s.ID, s.Title, s.Text, s.Word = "proposed", m.ID, "remember "+m.Key, m.Content, string(m.Origin)
	if m.Inherited != "" {
		s.Notes = append(s.Notes, "derives from "+string(m.Inherited))
	}
	return []step{s}
}

func tellRecall(r *streams.RecallEntry, s step) []step {
	s.Kind, s.ID, s.Title = "recalled", r.ID, "recall "+r.Key+r.Query
	for _, it := range r.Admitted {
		s.Text += it.Content + "\n"
	}
	s.Notes = append(s.Notes, fmt.Sprintf("%d admitted", len(r.Admitted)), fmt.Sprintf("%d as context only",
		len(r.ContextOnly)), fmt.Sprintf("%d refused", len(r.Refused)))
	return []step{s}
}

func tellVerdict(v *streams.VerdictEntry, s step, project string) []step {
	s.Kind, s.Title, s.Word = "decided", v.Tool, v.Verdict.String()
	if v.Tool == "" {
		s.Title = string(v.Type) + " " + v.ID
	}
	if v.Again {
		s.Notes = append(s.Notes, "asked again")
	}
	reasons := slices.Clone(v.Reasons)
	slices.SortStableFunc(reasons, func(a, b streams.Reason) int { return int(b.Verdict) - int(a.Verdict) })
	for _, r := range reasons {
		if r.Verdict == v.Verdict || r.Code == streams.CodeApproved {
			s.Text += r.Text + "\n"
		}
	}
	if v.Hold != nil {
		s.Link = "/holds/" + project + "/" + v.Hold.ID
	}
	if v.Resolved != nil {
		s.Notes, s.Link = append(s.Notes, v.Resolved.State+" by "+v.Resolved.By), "/holds/"+project+"/"+v.Resolved.Hold
	}
	return []step{s}
}

func tellAlerts(list []streams.Alert, s step) []step {
	var out []step
	for _, a := range list {
		x := s
		x.Kind, x.Title, x.Word, x.Text = "alert", a.Rule, a.Severity, a.Message
		if a.Mode == "shadow" {
			x.Notes = append(x.Notes, "shadow: no effect")
		} else if a.Effect != "" {
			x.Notes = append(x.Notes, a.Effect)
		}
		out = append(out, x)
	}
	return out
}

// Safe returns the text in a form that can neither reorder nor hide the text around it.
func (s step) Safe() string { return text.Inert(s.Text) }

// Long reports whether the text is so long that the page shows only its beginning until a user opens it.
func (s step) Long() bool { return len(s.Text) > 360 || strings.Count(s.Text, "\n") > 6 }
