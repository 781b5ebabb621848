package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/arbiter"
	"lazaret/internal/cli"
	"lazaret/internal/holds"
	"lazaret/internal/ingest"
	"lazaret/internal/lineage"
	"lazaret/internal/stage"
	"lazaret/pkg/intent"
	"lazaret/pkg/text"
	"lazaret/pkg/text/command"
	"lazaret/streams"
)

// Limits of the pages of holds.
const (
	maxGroups  = 100 // groups on a page
	maxMembers = 50  // listed holds per group
	maxQuotes  = 3   // quoted sources per hold
)

type holdsView struct {
	State, Project, Search string
	Projects               []string
	Groups                 []holdGroup
	Total, More            int // number of holds that match, and number of groups that are not listed
}

type holdGroup struct {
	*holds.Group
	Members []arbiter.Hold
	More    int // members that are not listed
}

func (c *Console) holdsPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &holdsView{State: q.Get("state"), Project: q.Get("project"),
		Search: strings.ToLower(strings.TrimSpace(q.Get("q"))), Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Live, p.Data = "Holds", "holds", true, v
	may := p.User.May
	if v.Project != "" {
		may = func(project string) bool { return project == v.Project && p.User.May(project) }
	}
	list := c.index.openHolds
	if v.State == "settled" {
		list = c.index.closedHolds
	} else {
		v.State = "open"
	}
	items := list(may)
	if v.Search != "" {
		items = slices.DeleteFunc(items, func(h arbiter.Hold) bool {
			return !strings.Contains(strings.ToLower(strings.Join([]string{h.ID, h.Agent, h.Verdict.Tool, h.Verdict.Session,
				p.Say(h.Project, why(&h).Text, h.Verdict.Proposal)}, " ")), v.Search)
		})
	}
	v.Total = len(items)
	byID := make(map[[2]string]*arbiter.Hold, len(items))
	for i := range items {
		byID[[2]string{items[i].Project, items[i].ID}] = &items[i]
	}
	groups := holds.Grouped(items)
	if len(groups) > maxGroups {
		v.More, groups = len(groups)-maxGroups, groups[:maxGroups]
	}
	for _, g := range groups {
		x := holdGroup{Group: g}
		for _, id := range g.IDs[:min(len(g.IDs), maxMembers)] {
			x.Members = append(x.Members, *byID[[2]string{g.Project, id}])
		}
		x.More = len(g.IDs) - len(x.Members)
		v.Groups = append(v.Groups, x)
	}
	return "holds", nil
}

type holdView struct {
	*arbiter.Hold
	Body    string // the held content, as JSON or text
	JSON    bool   // Body is JSON text
	Hidden  bool   // the user may not read the content
	Unsafe  string // the reason why the decision cannot be signed on this page; empty: it can
	Event   string // id of the event, as it is in the signed digest
	Key     string // key of a held memory write
	Quotes  []quoted
	Drawing template.HTML
	Alike   int // similar open holds, including this one
	Row     *holdRow
	List    *catalogueView // the tools to accept; set only if the hold is about a list of tools
	Prompt  *proposedPrompt
	Follows []followed // sources that the user named and whose instructions the action follows
}

// followed is a source that the user named and whose instructions a held action follows.
type followed struct {
	*arbiter.ShownSource
	Lines []intent.Line
	Whole string // the texts as JSON
	Why   string // the reason why the source cannot be approved on this page; empty: it can
}

// follow returns the sources that the user named and whose instructions a held action follows. It includes only texts
// that the console's user may read.
func (c *Console) follow(ctx context.Context, p *page, h *arbiter.Hold, body string) (out []followed) {
	for i := range h.Sources {
		f := followed{ShownSource: &h.Sources[i], Why: h.Sources[i].Missing}
		e, err := stage.ReadEntry(ctx, c.js, f.Entry)
		if err == nil && f.Why == "" {
			f.Why = p.withheld(&e)
		} else if f.Why == "" {
			f.Why = "The source cannot be read: it may have been erased."
		}
		if f.Why == "" {
			if err := holds.CheckSource(f.ShownSource); err != nil {
				f.Why = err.Error()
			}
		}
		if f.Why == "" {
			f.Lines = f.ShownSource.Lines(body)
			whole, err := streams.Marshal(f.Texts)
			if err != nil {
				f.Why = err.Error()
			}
			f.Whole = cli.EscapeJSON(string(whole))
		}
		out = append(out, f)
	}
	return out
}

// findHold asks the arbiter for a hold. Then it waits for up to a second until the index has read the hold's proposal.
func (c *Console) findHold(ctx context.Context, project, id string) (*arbiter.Hold, error) {
	if cmp.Or(streams.CheckID("project", project), streams.CheckID("hold", id)) != nil {
		return nil, notFound("There is no such hold.")
	}
	h, err := holds.Find(ctx, c.cfg.Conn, project, id)
	if exit := (*cli.Exit)(nil); errors.As(err, &exit) {
		return nil, notFound("There is no hold %s in project %s.", id, project)
	}
	if err == nil {
		c.index.awaitEntry(ctx, h.Verdict.Proposal)
	}
	return h, err
}

func (c *Console) holdPage(r *http.Request, p *page) (string, error) {
	project, id := r.PathValue("project"), r.PathValue("id")
	p.Nav = "holds"
	if !p.User.May(project) {
		return "", notFound("There is no hold %s in project %s.", id, project)
	}
	h, err := c.findHold(r.Context(), project, id)
	if err != nil {
		return "", err
	}
	v, body := p.viewOf(h)
	p.Title, p.Data = "Hold "+h.ID, v
	if h.State == streams.HoldOpen {
		mine := holds.LikenessOf(h)
		for _, o := range c.index.openHolds(func(x string) bool { return x == project }) {
			if holds.LikenessOf(&o) == mine {
				v.Alike++
			}
		}
	}
	if len(h.Tools) > 0 && !v.Hidden {
		if _, err := c.readTools(r.Context(), p, project, h.Catalogue); err != nil {
			v.Unsafe, v.Missing = "You may not see the tools, so you cannot sign a decision on them.", err.Error()
			return "hold", nil
		}
		v.List = &catalogueView{Project: project, Agent: h.Agent, Select: h.State == streams.HoldOpen}
		if err := c.review(r.Context(), p, v.List, h); err != nil {
			return "", err
		}
	}
	v.Prompt = c.comparePrompt(r.Context(), p, h, body)
	v.Quotes = c.quotes(r.Context(), p, h, body)
	if !v.Hidden {
		v.Follows = c.follow(r.Context(), p, h, body)
	}
	v.Drawing = c.drawPaths(p, h)
	return "hold", nil
}

// viewOf returns what the page shows of a hold, and in body the held content. If the user may not read the content,
// body is empty and the view contains no part of the content.
func (p *page) viewOf(h *arbiter.Hold) (v *holdView, body string) {
	v = &holdView{Hold: h, Event: cmp.Or(h.Verdict.Reuses, h.Verdict.ID)}
	body = bodyOf(h)
	v.show(p, body)
	if v.Hidden { // also hide fields that quote the content
		body, v.Instructions, v.Tools = "", "", nil
	}
	if h.State != streams.HoldOpen {
		return v, body
	}
	if err := holds.CheckShown(h); err != nil {
		v.Unsafe = err.Error()
	}
	if v.Hidden {
		v.Unsafe = "You may not see what is held, so you cannot sign a decision on it."
	}
	return v, body
}

// bodyOf returns the held content. If the hold is settled, it returns only the beginning of the content.
func bodyOf(h *arbiter.Hold) string { return cmp.Or(h.Body, h.Verdict.Summary) }

// show sets the content in a form that is safe to display. The page must be able to compute the content's digest from
// this form.
func (v *holdView) show(p *page, body string) {
	if v.Verdict.Belief != nil {
		v.Key = v.Verdict.Belief.Key
	}
	if v.Body, v.Hidden = p.say(v.Project, body, v.Verdict.Proposal); v.Hidden {
		return
	}
	js := jsontext.Value(bytes.Clone([]byte(body)))
	if v.Verdict.Type == streams.TypeAction && js.Indent(jsontext.WithIndent("  ")) == nil {
		v.Body, v.JSON = cli.EscapeJSON(string(js)), true
		return
	}
	v.Body, v.JSON = inertText(body)
}

// inertText returns a text in a form that can be displayed. If the text has characters that cannot be displayed, the
// result is a JSON string in which they are escaped, and asJSON is true.
func inertText(s string) (shown string, asJSON bool) {
	if shown = text.Inert(s); shown == s {
		return s, false
	}
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return shown, false
	}
	return cli.EscapeJSON(string(b)), true
}

// quoted is a passage that the agent read. Sentence is the sentence in it that asked for the action.
type quoted struct {
	Event, Agent, Origin, Tool, Source string
	Session                            string
	At                                 uint64
	Before, After                      string
	Sentence                           []mark
	Why                                string // the reason why the passage is not shown; empty: it is shown
}

// mark is a part of a sentence. Hit is set if the part is a value that is also in the action's arguments.
type mark struct {
	Text string
	Hit  bool
}

// quotes returns the sentences that asked for a held action. It looks for them in the observations that are on the
// paths of the hold's reasons.
func (c *Console) quotes(ctx context.Context, p *page, h *arbiter.Hold, body string) []quoted {
	var out []quoted
	seen := make(map[string]bool)
	for _, r := range h.Verdict.Reasons {
		for _, step := range r.Path {
			id, ok := strings.CutPrefix(step, "observation:")
			if !ok || seen[id] || len(out) == maxQuotes {
				continue
			}
			seen[id] = true
			agent, event, other := strings.Cut(id, "/")
			if !other {
				agent, event = h.Agent, id
			}
			q := quoted{Event: event, Agent: agent, At: c.index.find(h.Project, agent, event)}
			if q.At == 0 {
				q.Why = "The source is older than the console's index: lazaret verdict show " + h.ID
				out = append(out, q)
				continue
			}
			e, err := stage.ReadEntry(ctx, c.js, q.At)
			if err != nil {
				q.Why = "The source cannot be read: it may have been erased."
				out = append(out, q)
				continue
			}
			o, err := streams.Read[streams.ObservationEntry](&e)
			if err != nil || e.Type != streams.TypeObservation {
				continue
			}
			q.Origin, q.Tool, q.Source, q.Session = string(o.Origin), o.Tool, o.Source, o.Session
			var all strings.Builder
			for _, b := range o.Blocks {
				all.WriteString(b.Text)
				all.WriteByte('\n')
			}
			if why := p.withheld(&e); why != "" {
				q.Why = why
			} else {
				q.pick(all.String(), values(body))
			}
			out = append(out, q)
		}
	}
	return out
}

// values returns those values in a held action's arguments that can be searched for in a source, such as addresses,
// hosts and accounts.
func values(body string) []string {
	var out []string
	for _, s := range text.CarrierSpans(body) {
		if v := strings.ToLower(strings.Trim(body[s.Start:s.End], ` "'\`)); len(v) > 3 && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// pick chooses the sentence of content that most likely asked for the action. It counts how much a sentence reads like
// an instruction, and how many of the action's values it has.
func (q *quoted) pick(content string, values []string) {
	const around = 240 // characters of context before and after
	var best []string
	at, most := 0, -1
	for _, seg := range text.Segments(content) {
		ss := sentences(seg.Text)
		for i, s := range ss {
			n := command.Of(s).Points
			for _, v := range values {
				if strings.Contains(strings.ToLower(s), v) {
					n += 100
				}
			}
			if n > most {
				best, at, most = ss, i, n
			}
		}
	}
	if best == nil {
		return
	}
	q.Before = tail(strings.Join(best[:at], " "), around)
	q.After = text.InertLine(strings.Join(best[at+1:], " "), around)
	q.Sentence = marked(text.InertLine(best[at], 1500), values)
}

// sentences splits a text after full stops, question marks, exclamation marks and line ends.
func sentences(s string) []string {
	var out []string
	from := 0
	for i := 0; i < len(s); i++ {
		end := s[i] == '\n' || (s[i] == '.' || s[i] == '!' || s[i] == '?') && (i+1 == len(s) || s[i+1] == ' ' ||
			s[i+1] == '\n')
		if !end {
			continue
		}
		if part := strings.TrimSpace(s[from : i+1]); part != "" {
			out = append(out, part)
		}
		from = i + 1
	}
	if part := strings.TrimSpace(s[from:]); part != "" {
		out = append(out, part)
	}
	return out
}

// tail returns the last n characters of a text.
func tail(s string, n int) string {
	r := []rune(text.InertLine(s, 0))
	if len(r) <= n {
		return string(r)
	}
	return "…" + string(r[len(r)-n:])
}

// marked splits a sentence into parts, so that each value in it is a part.
func marked(s string, values []string) []mark {
	low := strings.ToLower(s)
	if len(low) != len(s) { // in lower case the text has another length, so positions differ: mark nothing
		return []mark{{Text: s}}
	}
	var out []mark
	for from := 0; from < len(s); {
		start, end := len(s), len(s)
		for _, v := range values {
			if i := strings.Index(low[from:], v); i >= 0 && from+i < start {
				start, end = from+i, from+i+len(v)
			}
		}
		if start > from {
			out = append(out, mark{Text: s[from:start]})
		}
		if end > start {
			out = append(out, mark{s[start:end], true})
		}
		from = end
	}
	return out
}

// drawPaths returns an SVG drawing of the paths in a hold's reasons. Each path leads from a source to the action.
func (c *Console) drawPaths(p *page, h *arbiter.Hold) template.HTML {
	g := new(ingest.Lineage)
	seen := make(map[string]bool)
	edges := make(map[[2]string]bool)
	for _, r := range h.Verdict.Reasons {
		if len(r.Path) < 2 {
			continue
		}
		for i, step := range r.Path {
			if !seen[step] {
				seen[step] = true
				kind, id, _ := strings.Cut(step, ":")
				n := ingest.LineageNode{ID: step, Kind: kind, Step: -i}
				if i == 0 {
					n.Content = h.Verdict.Tool
				} else {
					n.Content = p.Say(h.Project, id)
				}
				g.Nodes = append(g.Nodes, n)
			}
			if i > 0 && !edges[[2]string{step, r.Path[i-1]}] {
				edges[[2]string{step, r.Path[i-1]}] = true
				g.Edges = append(g.Edges, ingest.LineageEdge{From: step, To: r.Path[i-1], How: "leads to"})
			}
		}
	}
	if len(g.Nodes) == 0 {
		return ""
	}
	return template.HTML(lineage.SVG(g)) // SVG escapes its input
}

// Command returns the command line with which a person decides the hold with a key file. d is the decision.
func (v *holdView) Command(d string) string {
	if v.List != nil && d == "approve" {
		return "lazaret mcp review " + v.ID + " --key FILE"
	}
	return "lazaret holds " + d + " " + v.ID + " --key FILE"
}

// ObservationPath returns the URL of the page that shows the source of the quote in its session.
func (q quoted) ObservationPath(project string) string {
	if q.Session == "" {
		return ""
	}
	return "/sessions/" + url.PathEscape(project) + "/" + url.PathEscape(q.Session) + "#e" + q.Event
}
