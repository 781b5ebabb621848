package inquiry

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

// Report is a readable summary of a session: first the important facts, then tables that join similar rows. Each row
// links to the first entry behind it. The report's size grows with the variety of the events, hardly with their number.
type Report struct {
	Title   string
	Status  string // ok, attention or failed
	Facts   []Fact // the summary
	Tables  []Table
	Session *Session
	Told    Integrity
}

// Fact is a line of the summary.
type Fact struct {
	Name, Text string
	Bad        bool
}

// Table answers one question.
type Table struct {
	ID, Title, Note string
	Head            []string
	Rows            []Row
	More            int // number of omitted rows, which the detail pages show
}

// Row is a line of a table. Bad marks rows that need attention.
type Row struct {
	Cells []string
	Entry *Entry // the first entry behind the row; the row links to its details
	Bad   bool
}

// Limits of a report. They keep a report of a thousand calls well below 300 kB.
const (
	maxRows = 40
	maxText = 140 // characters of a cell
)

// rows adds rows to a table, bad ones first, and drops rows beyond the limit.
func (t *Table) rows(rs []Row) {
	sort.SliceStable(rs, func(i, j int) bool { return rs[i].Bad && !rs[j].Bad })
	if len(rs) > maxRows {
		t.More, rs = len(rs)-maxRows, rs[:maxRows]
	}
	t.Rows = rs
}

// NewReport returns the report of a session.
func NewReport(s *Session, told Integrity) *Report {
	r := &Report{Title: "Session " + s.Name, Session: s, Told: told, Status: "ok"}
	r.observed()
	r.believed()
	r.decidedOn()
	r.proposals()
	r.memory()
	r.held()
	r.alerts()
	r.inForce()
	r.facts()
	return r
}

func (r *Report) add(t Table, rows []Row) {
	t.rows(rows)
	r.Tables = append(r.Tables, t)
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05") }

// fold collects rows. It joins equal rows and counts them.
type fold struct {
	order []string
	rows  map[string]*folded
}

type folded struct {
	Row
	n int
}

func (f *fold) add(row Row) {
	if f.rows == nil {
		f.rows = make(map[string]*folded)
	}
	k := strings.Join(row.Cells, "\x00")
	if x := f.rows[k]; x != nil {
		x.n++
		return
	}
	f.order = append(f.order, k)
	f.rows[k] = &folded{Row: row, n: 1}
}

// list returns the rows with their count as the first cell, largest first.
func (f *fold) list() []Row {
	sort.SliceStable(f.order, func(i, j int) bool { return f.rows[f.order[i]].n > f.rows[f.order[j]].n })
	var out []Row
	for _, k := range f.order {
		x := f.rows[k]
		x.Cells = append([]string{fmt.Sprint(x.n)}, x.Cells...)
		out = append(out, x.Row)
	}
	return out
}

// place returns the scheme and host of a source that is a URL, and any other source unchanged.
func place(source string) string {
	if u, err := url.Parse(source); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return source
}

func (r *Report) observed() {
	var f fold
	for _, o := range r.Session.observations {
		found := ""
		if o.alerts > 0 {
			found = "alerts"
		}
		trust := "believed with its author"
		if o.o.Origin.External() || o.o.Origin == beliefs.OriginAgent {
			trust = "read, not believed"
		}
		f.add(Row{Cells: []string{string(o.o.Origin), o.o.Tool, place(o.o.Source), trust, found}, Entry: o.e,
			Bad: o.alerts > 0})
	}
	for _, x := range r.Session.rejected {
		f.add(Row{Cells: []string{string(x.r.Kind), "", "", "rejected: " + string(x.r.Code), x.r.Reason}, Entry: x.e,
			Bad: true})
	}
	r.add(Table{ID: "observed", Title: "What was observed", Head: []string{"times", "origin", "tool", "source",
		"what it counts for", "found in it"}}, f.list())
}

func (r *Report) believed() {
	var rows []Row
	for _, b := range r.Session.beliefs {
		kind := b.Kind.String()
		if b.Memory {
			kind = "memory"
		}
		rows = append(rows, Row{Cells: []string{b.ID, kind, b.Axes.Truth.String(), b.Axes.Retrieval.String(),
			b.Axes.Security.String(), b.Axes.Freshness.String(), b.Sensitivity.String(),
			b.Scope.String(), string(b.Origin), b.Quality.String(), fmt.Sprintf("%.2f", b.Confidence), b.Content},
			Entry: r.Session.brought[b.Agent+"\x00"+b.Observation], Bad: b.Axes.Security > beliefs.Clean})
	}
	r.add(Table{ID: "believed", Title: "What is believed",
		Note: "Beliefs that the session introduced, cited or recalled, as they are at the end of the log.",
		Head: []string{"belief", "kind", "truth", "retrieval", "security", "freshness", "sensitivity", "scope", "origin",
			"evidence", "confidence", "content"}}, rows)
}

func cited(refs []streams.BeliefRef) string {
	if len(refs) == 0 {
		return "nothing"
	}
	var out []string
	for i, b := range refs {
		if i == 6 {
			out = append(out, fmt.Sprintf("and %d more", len(refs)-i))
			break
		}
		if !b.Found {
			out = append(out, b.ID+" (unknown)")
			continue
		}
		out = append(out, fmt.Sprintf("%s (%s, %s, %s)", b.ID, b.Axes.Truth, b.Axes.Security, b.Origin))
	}
	return strings.Join(out, "; ")
}

func (r *Report) decidedOn() {
	var rows []Row
	for _, d := range r.Session.decisions {
		var acts []string
		for _, a := range r.Session.actions {
			if a.a.Decision == d.d.ID && a.a.Agent == d.d.Agent {
				acts = append(acts, a.a.Tool)
			}
		}
		bad := len(d.d.Beliefs) == 0 || slices.ContainsFunc(d.d.Beliefs, func(b streams.BeliefRef) bool {
			return !b.Found || b.Axes.Truth != beliefs.Supported || b.Axes.Security != beliefs.Clean
		})
		rows = append(rows, Row{Cells: []string{stamp(d.e.Time), d.d.ID, d.d.Summary, cited(d.d.Beliefs),
			strings.Join(acts, ", ")}, Entry: d.e, Bad: bad})
	}
	r.add(Table{ID: "decided", Title: "What was decided, on which beliefs",
		Note: "Beliefs as they stood when the decision was recorded.",
		Head: []string{"time", "decision", "summary", "beliefs it cites", "actions"}}, rows)
}

// reasons formats a verdict's strictest reasons as one line.
func reasons(v *streams.VerdictEntry) string {
	rs := slices.Clone(v.Reasons)
	sort.SliceStable(rs, func(i, j int) bool { return rs[i].Verdict > rs[j].Verdict })
	var out []string
	for i, x := range rs {
		if i == 2 {
			out = append(out, fmt.Sprintf("and %d more", len(rs)-i))
			break
		}
		out = append(out, strings.TrimSpace(string(x.Code)+" "+x.Rule)+": "+x.Text)
	}
	return strings.Join(out, "; ")
}

func verdictOf(g *given) string {
	if g == nil {
		return "none"
	}
	if g.v.Learn {
		return g.v.Verdict.String() + " (learn mode)"
	}
	return g.v.Verdict.String()
}

func happened(o *outcome) string {
	if o == nil {
		return "no outcome reported"
	}
	return o.o.Status
}

func policyOf(g *given) string {
	if g == nil {
		return ""
	}
	return short(g.v.Policy)
}

func short(digest string) string {
	d := strings.TrimPrefix(digest, "sha256:")
	return d[:min(len(d), 12)]
}

func (r *Report) proposals() {
	var calm fold
	var rows []Row
	for _, p := range r.Session.actions {
		v := verdictOf(p.verdict)
		ran := p.out != nil && p.out.o.Ran()
		bad := p.verdict == nil || p.verdict.v.Verdict != streams.Allow || len(p.verdict.v.Degraded) > 0
		if ran && (p.verdict == nil || p.verdict.v.Verdict != streams.Allow) {
			v += ", AND IT RAN"
		}
		row := Row{Cells: []string{p.a.Tool, p.a.Level.String(), v, policyOf(p.verdict), p.a.Matched, happened(p.out)},
			Entry: p.e, Bad: bad}
		// A release by a person is listed individually even if it is not bad.
		if !bad && len(p.verdict.v.Reasons) == 0 {
			calm.add(row)
			continue
		}
		why := ""
		if p.verdict != nil {
			why = reasons(p.verdict.v)
		}
		rows = append(rows, Row{Cells: append(append([]string{"1"}, row.Cells...), why, string(p.a.Args)), Entry: p.e,
			Bad: bad})
	}
	for _, row := range calm.list() {
		row.Cells = append(row.Cells, "every required group cleared it", "")
		rows = append(rows, row)
	}
	for _, o := range r.Session.unproposed {
		rows = append(rows, Row{Cells: []string{"1", o.o.Action, "", "none was asked for", "", "", o.o.Status,
			"an outcome of an action that was never proposed", ""}, Entry: o.e, Bad: o.o.Status != "answer"})
	}
	r.add(Table{ID: "proposed", Title: "What was proposed, what allowed it, what happened",
		Head: []string{"times", "tool", "level", "verdict", "policy", "its entry", "what happened", "because",
			"arguments"}}, rows)
}

func (r *Report) memory() {
	var rows []Row
	for _, m := range r.Session.memories {
		why := ""
		if m.verdict != nil {
			why = reasons(m.verdict.v)
		}
		rows = append(rows, Row{Cells: []string{stamp(m.e.Time), "write", m.m.Key,
			string(cmp.Or(m.m.Inherited, m.m.Origin)), verdictOf(m.verdict), why, m.m.Content}, Entry: m.e,
			Bad: m.verdict == nil || m.verdict.v.Verdict != streams.Allow})
	}
	for _, x := range r.Session.recalls {
		rows = append(rows, Row{Cells: []string{stamp(x.e.Time), "recall", x.r.Key, "", verdictOf(x.verdict),
			fmt.Sprintf("%d admitted, %d as context only, %d refused", len(x.r.Admitted), len(x.r.ContextOnly),
				len(x.r.Refused)), x.r.Query}, Entry: x.e,
			Bad: x.verdict == nil || x.verdict.v.Verdict != streams.Allow})
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].Entry.Index < rows[j].Entry.Index })
	r.add(Table{ID: "memory", Title: "What was remembered and recalled", Head: []string{"time", "what", "key", "origin",
		"verdict", "because", "content"}}, rows)
}

func (r *Report) held() {
	var rows []Row
	for _, h := range r.Session.holds {
		who, when := h.by, ""
		if h.at != nil {
			when = h.at.Time.UTC().Format(time.DateTime)
			if who == "" {
				who = "nobody"
			}
		}
		e := h.at
		if e == nil {
			e = h.opened.e
		}
		rows = append(rows, Row{Cells: []string{h.id, h.tool, h.proposal, h.opened.e.Time.UTC().Format(time.DateTime),
			h.state, who, when, h.reason, reasons(h.opened.v)}, Entry: e,
			Bad: h.state == streams.HoldOpen})
	}
	r.add(Table{ID: "holds", Title: "Holds and approvals", Head: []string{"hold", "of", "proposal", "opened", "state",
		"by", "when", "reason given", "held because"}}, rows)
}

func (r *Report) alerts() {
	var f fold
	rank := map[string]int{"critical": 0, "high": 1, "medium": 2, "low": 3, "info": 4}
	as := slices.Clone(r.Session.alerts)
	sort.SliceStable(as, func(i, j int) bool { return rank[as[i].a.Severity] < rank[as[j].a.Severity] })
	for _, x := range as {
		mode := x.a.Effect
		if x.a.Mode != "enforce" {
			mode += ", " + x.a.Mode
		}
		f.add(Row{Cells: []string{x.a.Severity, x.a.Rule, mode, x.a.Group, x.a.Subject.Kind + " " + x.a.Subject.ID,
			x.a.Message}, Entry: x.e, Bad: rank[x.a.Severity] < 2 && x.a.Mode == "enforce"})
	}
	r.add(Table{ID: "alerts", Title: "What the sentinels found", Head: []string{"times", "severity", "rule", "effect",
		"group", "about", "message"}}, f.list())
}

func (r *Report) inForce() {
	var rows []Row
	for _, a := range r.Session.inForce {
		what := map[string]string{streams.DoActivatePolicy: "policy", streams.DoActivateRules: "rule set",
			streams.DoActivateTrust: "keys that may approve"}[a.a.Do]
		n := ""
		if a.counts > 0 {
			n = fmt.Sprint(a.counts)
		}
		rows = append(rows, Row{Cells: []string{cmp.Or(what, a.a.Do), a.a.Digest, a.a.Signer,
			a.e.Time.UTC().Format(time.DateTime), n}, Entry: a.e})
	}
	r.add(Table{ID: "force", Title: "What was in force", Head: []string{"what", "digest", "signed by", "since",
		"verdicts"}}, rows)
}

// facts adds the summary.
func (r *Report) facts() {
	s := r.Session
	from, to := s.span()
	add := func(name string, bad bool, format string, args ...any) {
		r.Facts = append(r.Facts, Fact{name, fmt.Sprintf(format, args...), bad})
		if bad && r.Status == "ok" {
			r.Status = "attention"
		}
	}
	add("Integrity", r.Told.Status == chain.Failed, "%s", r.Told)
	if r.Told.Status == chain.Failed {
		r.Status = "failed"
	}
	add("Session", false, "%s in project %s by %s, %s to %s UTC, %d log entries", s.Name, s.Project,
		strings.Join(s.Agents, ", "), from.UTC().Format(time.DateTime), to.UTC().Format(time.DateTime), len(s.Entries))
	external := 0
	for _, o := range s.observations {
		if o.o.Origin.External() {
			external++
		}
	}
	add("Observed", len(s.rejected) > 0, "%d observations, %d of them from outside; %d messages rejected",
		len(s.observations), external, len(s.rejected))
	supported, weak := 0, 0
	for _, b := range s.beliefs {
		if b.Axes.Security > beliefs.Clean {
			weak++
		}
		if b.Axes.Truth == beliefs.Supported {
			supported++
		}
	}
	add("Believed", weak > 0, "%d beliefs, %d of them supported, %d suspicious or worse", len(s.beliefs), supported, weak)
	count := make(map[string]int)
	ran, against := 0, 0
	for _, p := range s.actions {
		v := verdictOf(p.verdict)
		count[v]++
		if p.out != nil && p.out.o.Ran() {
			ran++
			if p.verdict == nil || p.verdict.v.Verdict != streams.Allow {
				against++
			}
		}
	}
	add("Proposed", count["allow"] < len(s.actions),
		"%d actions: %d allowed, %d held, %d denied, %d without a verdict; %d decisions", len(s.actions), count["allow"],
		count["hold"], count["deny"], count["none"], len(s.decisions))
	add("Happened", against > 0, "%d actions were reported as carried out, %d of them against their verdict", ran, against)
	open, approved := 0, 0
	for _, h := range s.holds {
		switch h.state {
		case streams.HoldOpen:
			open++
		case streams.HoldApproved:
			approved++
		}
	}
	add("Holds", open > 0, "%d, of which %d approved by a person and %d still open", len(s.holds), approved, open)
	severe := 0
	for _, a := range s.alerts {
		if (a.a.Severity == "critical" || a.a.Severity == "high") && a.a.Mode == "enforce" {
			severe++
		}
	}
	add("Alerts", severe > 0, "%d, of which %d high or critical", len(s.alerts), severe)
	if s.forgotten > 0 {
		add("Forgotten", false, "%d payloads of the project were forgotten; the beliefs are computed without them",
			s.forgotten)
	}
}
