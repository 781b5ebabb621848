package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/arbiter"
	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/holds"
	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits of the stored catalogues.
const (
	maxCatalogues = 5_000  // pairs of agent and server
	maxOffers     = 16     // lists of each pair
	maxAsks       = 10_000 // unanswered requests to accept a list
)

// offeredList is one of the lists of tools that a server offered.
type offeredList struct {
	At     uint64 // position of its entry
	Digest string
	Tools  int
	Time   time.Time
}

// catalogueRow has the lists of tools that a server offered to an agent, and the list that is accepted.
type catalogueRow struct {
	Project, Agent, Server string
	Offers                 []offeredList // latest last
	Accepted               offeredList   // zero: none
	AcceptedBy             string        // empty: accepted by a standing permission
	AcceptedTime           time.Time
	Hold                   string // id of the hold about the latest list, if it is open

	ask uint64 // position of the latest held request
}

// ask is a proposal to accept a list of tools.
type ask struct {
	row    *catalogueRow
	digest string
}

// Latest returns the list that the server offered last.
func (r *catalogueRow) Latest() offeredList { return r.Offers[len(r.Offers)-1] }

// Before returns up to three lists that the server offered before the latest one. The latest of them comes first.
func (r *catalogueRow) Before() []offeredList {
	out := slices.Clone(r.Offers[:len(r.Offers)-1])
	slices.Reverse(out)
	return out[:min(len(out), 3)]
}

// State returns a word that says whether the latest list is accepted.
func (r *catalogueRow) State() string {
	switch {
	case r.Accepted.Digest == r.Latest().Digest:
		return "accepted"
	case r.Hold != "":
		return "waiting"
	case r.Accepted.Digest != "":
		return "changed"
	}
	return "not accepted"
}

func (r *catalogueRow) offer(digest string) offeredList {
	for _, o := range slices.Backward(r.Offers) {
		if o.Digest == digest {
			return o
		}
	}
	return offeredList{Digest: digest}
}

// takeTools adds a list of tools to the index. The caller holds mu.
func (x *index) takeTools(e *streams.Entry, at uint64) {
	t, err := streams.Read[streams.ToolsEntry](e)
	if err != nil {
		return
	}
	k := [3]string{e.Project, t.Agent, t.Server}
	row := x.catalogues[k]
	if row == nil {
		row = &catalogueRow{Project: e.Project, Agent: t.Agent, Server: t.Server}
		x.catalogues[k] = row
	}
	digest := streams.CatalogueDigest(t.Server, t.Instructions, t.Tools)
	row.Offers = append(slices.DeleteFunc(row.Offers, func(o offeredList) bool { return o.Digest == digest }),
		offeredList{at, digest, len(t.Tools), e.Time})
	if len(row.Offers) > maxOffers {
		row.Offers = slices.Delete(row.Offers, 0, 1)
	}
}

// takeAsk adds a proposal to accept a list of tools to the index. The caller holds mu.
func (x *index) takeAsk(e *streams.Entry, at uint64) {
	a, err := streams.Read[streams.ActionEntry](e)
	if err != nil {
		return
	}
	args := new(streams.ApproveToolsArgs)
	if streams.Unmarshal(a.Args, args) != nil {
		return
	}
	if row := x.catalogues[[3]string{e.Project, a.Agent, args.Server}]; row != nil {
		x.asks[at] = ask{row, args.Digest}
	}
}

// takeAnswer applies a verdict on a proposal to accept a list of tools. If it is allow, the list is accepted. The
// caller holds mu.
func (x *index) takeAnswer(v *streams.VerdictEntry) {
	a, ok := x.asks[v.Proposal]
	if !ok {
		return
	}
	if v.Verdict == streams.Hold {
		a.row.ask = v.Proposal
		return
	}
	delete(x.asks, v.Proposal)
	if v.Verdict != streams.Allow {
		return
	}
	a.row.Accepted, a.row.AcceptedTime, a.row.AcceptedBy = a.row.offer(a.digest), v.Time, ""
	if v.Resolved != nil {
		a.row.AcceptedBy = v.Resolved.By
	}
}

// pruneTools enforces the limits. If there are too many proposals, it drops all those that have no open hold. If there
// are too many servers, it drops those whose latest list is the oldest. The caller holds mu.
func (x *index) pruneTools() {
	if n := len(x.asks) - maxAsks; n > maxAsks/10 {
		for at := range x.asks {
			if x.held[at] == nil {
				delete(x.asks, at)
			}
		}
	}
	if n := len(x.catalogues) - maxCatalogues; n > maxCatalogues/10 {
		rows := make([]*catalogueRow, 0, len(x.catalogues))
		for _, r := range x.catalogues {
			rows = append(rows, r)
		}
		slices.SortFunc(rows, func(a, b *catalogueRow) int { return cmp.Compare(a.Latest().At, b.Latest().At) })
		for _, r := range rows[:n] {
			delete(x.catalogues, [3]string{r.Project, r.Agent, r.Server})
		}
	}
}

// listCatalogues returns the rows of the projects for which may returns true. First come the servers whose latest list
// waits for a person.
func (x *index) listCatalogues(may func(project string) bool) []catalogueRow {
	order := []string{"waiting", "changed", "not accepted", "accepted"}
	return selected(x, x.catalogues,
		func(r *catalogueRow) (catalogueRow, bool) { return x.catalogue(r), may(r.Project) },
		func(a, b catalogueRow) int {
			return cmp.Or(cmp.Compare(slices.Index(order, a.State()), slices.Index(order, b.State())),
				cmp.Compare(b.Latest().At, a.Latest().At))
		})
}

// catalogue returns a copy of a row, with the id of the open hold about its latest list. The caller holds mu.
func (x *index) catalogue(r *catalogueRow) catalogueRow {
	row := *r
	row.Offers = slices.Clone(r.Offers)
	if h := x.held[r.ask]; h != nil && x.asks[r.ask].digest == row.Latest().Digest {
		row.Hold = h.ID
	}
	return row
}

// findCatalogue returns the row of a server.
func (x *index) findCatalogue(project, agent, server string) (row catalogueRow, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := x.catalogues[[3]string{project, agent, server}]
	if r == nil {
		return row, false
	}
	return x.catalogue(r), true
}

// policyNow caches the active policy for a few seconds.
type policyNow struct {
	mu  sync.Mutex
	pol *policy.Policy
	at  time.Time
}

const policyFresh = 10 * time.Second

// policy returns the policy that is active. If none was activated, it returns the shipped one.
func (c *Console) policy(ctx context.Context) (*policy.Policy, error) {
	n := &c.pol
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pol != nil && time.Since(n.at) < policyFresh {
		return n.pol, nil
	}
	b, err := backtest.InForce(ctx, c.cfg.Conn, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = policy.Default
	}
	if n.pol == nil || n.pol.Digest != streams.Digest(b) {
		if n.pol, err = policy.Compile("the policy in force", b); err != nil {
			return nil, err
		}
	}
	n.at = time.Now()
	return n.pol, nil
}

type toolsView struct {
	Project, Search string
	Projects        []string
	Rows            []catalogueRow
	More            int // number of matching servers that are not listed
}

func (c *Console) toolsPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &toolsView{Project: q.Get("project"), Search: strings.ToLower(strings.TrimSpace(q.Get("q"))),
		Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Live, p.Data = "Tools", "tools", true, v
	for _, row := range c.index.listCatalogues(p.User.May) {
		if v.Project != "" && row.Project != v.Project ||
			v.Search != "" && !strings.Contains(strings.ToLower(row.Server+" "+row.Agent), v.Search) {
			continue
		}
		if len(v.Rows) == maxListed {
			v.More++
			continue
		}
		v.Rows = append(v.Rows, row)
	}
	return "tools", nil
}

// catalogueView has a list of tools, and what a person needs to know before accepting it.
type catalogueView struct {
	Project, Agent, Server string
	Row                    *catalogueRow
	Review                 *holds.Review
	Tools                  map[string]shownTool // by name
	Changes                []toolChange         // relative to the accepted list
	Compared               bool                 // this list was compared with the accepted one
	Instructions           [2]string            // the server's accepted and offered instructions; if equal, [0] is empty
	Why                    string               // the reason why the list is not compared or not shown; empty: it is
	Select                 bool                 // a person can choose the levels of the tools on this page and sign
}

// shownTool has the texts of a tool in a form that is safe to display.
type shownTool struct{ Description, Schema, Annotations, Digest string }

// toolChange is the difference between an offered tool and the accepted tool of the same name.
type toolChange struct {
	Name, How string // added, removed or changed
	Parts     []changedPart
}

type changedPart struct{ Name, Was, Is string }

func showTool(t *streams.Tool) shownTool {
	return shownTool{text.Inert(t.Description), indented(t.InputSchema), indented(t.Annotations), t.Digest()}
}

// indented returns JSON with indentation, in a form that is safe to display.
func indented(v jsontext.Value) string {
	js := v.Clone()
	if len(js) == 0 || js.Indent(jsontext.WithIndent("  ")) != nil {
		return text.Inert(string(v))
	}
	return cli.EscapeJSON(string(js))
}

// compareTools returns the differences between the tools in was and those in is. Tools with the same name are compared.
func compareTools(was, is []streams.Tool) []toolChange {
	before := make(map[string]*streams.Tool)
	for i := range was {
		before[was[i].Name] = &was[i]
	}
	var out []toolChange
	for i := range is {
		t := &is[i]
		old := before[t.Name]
		delete(before, t.Name)
		switch {
		case old == nil:
			out = append(out, toolChange{Name: t.Name, How: "added"})
		case old.Digest() != t.Digest():
			a, b := showTool(old), showTool(t)
			ch := toolChange{Name: t.Name, How: "changed"}
			for _, part := range []changedPart{{"Description", a.Description, b.Description}, {"Schema", a.Schema, b.Schema},
				{"Annotations", a.Annotations, b.Annotations}} {
				if part.Was != part.Is {
					ch.Parts = append(ch.Parts, part)
				}
			}
			out = append(out, ch)
		}
	}
	for name := range before {
		out = append(out, toolChange{Name: name, How: "removed"})
	}
	slices.SortFunc(out, func(a, b toolChange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// readTools reads a list of tools from the ledger. It returns an error if the user may not see the list.
func (c *Console) readTools(ctx context.Context, p *page, project string, at uint64) (*streams.ToolsEntry, error) {
	e, err := stage.ReadEntry(ctx, c.js, at)
	if err != nil {
		return nil, err
	}
	if e.Type != streams.TypeTools || e.Project != project || e.Stage != streams.StageIngest {
		return nil, notFound("Entry %d is not a list of tools of project %s.", at, project)
	}
	if why := p.withheld(&e); why != "" {
		return nil, &failure{http.StatusForbidden, "Not shown", "The list of tools is " + why + "."}
	}
	return streams.Read[streams.ToolsEntry](&e)
}

func (c *Console) cataloguePage(r *http.Request, p *page) (string, error) {
	project := r.PathValue("project")
	at, err := strconv.ParseUint(r.PathValue("entry"), 10, 64)
	if err != nil || streams.CheckID("project", project) != nil || !p.User.May(project) {
		return "", notFound("There is no list of tools %s in project %s.", r.PathValue("entry"), project)
	}
	c.index.awaitEntry(r.Context(), at)
	t, err := c.readTools(r.Context(), p, project, at)
	if err != nil {
		return "", err
	}
	v := &catalogueView{Project: project, Agent: t.Agent, Server: t.Server}
	p.Title, p.Nav, p.Data = "Tools of "+text.InertLine(t.Server, 80), "tools", v
	// Show the list as a hold shows it if somebody proposes to accept the list. Only that proposal has the command that
	// starts the server, so the command is not shown here.
	args, err := streams.Marshal(&streams.ApproveToolsArgs{Server: t.Server})
	if err != nil {
		return "", err
	}
	h := &arbiter.Hold{Project: project, Agent: t.Agent, Body: string(args), Tools: t.Tools, Instructions: t.Instructions}
	if row, ok := c.index.findCatalogue(project, t.Agent, t.Server); ok && row.Hold != "" && row.Latest().At == at {
		if open, err := c.findHold(r.Context(), project, row.Hold); err == nil && len(open.Tools) > 0 {
			h = open
		}
	}
	if err := c.review(r.Context(), p, v, h); err != nil {
		return "", err
	}
	return "catalogue", nil
}

// review adds two things to v. They are about a hold on a server's list of tools: the level that is proposed for each
// tool of this list, and the differences between this list and the one that was accepted before.
func (c *Console) review(ctx context.Context, p *page, v *catalogueView, h *arbiter.Hold) error {
	pol, err := c.policy(ctx)
	if err != nil {
		return err
	}
	if v.Review, err = holds.NewReview(pol, h, nil); err != nil {
		return err
	}
	v.Server, v.Instructions[1] = v.Review.Server, text.Inert(h.Instructions)
	v.Tools = make(map[string]shownTool)
	for i := range h.Tools {
		v.Tools[h.Tools[i].Name] = showTool(&h.Tools[i])
	}
	row, ok := c.index.findCatalogue(h.Project, h.Agent, v.Server)
	if !ok {
		return nil
	}
	v.Row = &row
	if row.Accepted.Digest == "" {
		return nil
	}
	if row.Accepted.At == 0 {
		v.Why = "The accepted list is older than the console's index."
		return nil
	}
	was, err := c.readTools(ctx, p, h.Project, row.Accepted.At)
	if err != nil {
		v.Why = fmt.Sprintf("The accepted list cannot be read: %v", err)
		return ctx.Err()
	}
	v.Compared, v.Changes = true, compareTools(was.Tools, h.Tools)
	if s := text.Inert(was.Instructions); s != v.Instructions[1] {
		v.Instructions[0] = cmp.Or(s, "none")
	}
	return nil
}

// Levels returns the levels at which a tool can be accepted.
func (v *catalogueView) Levels() []string { return []string{"L0", "L1", "L2", "L3", "L4"} }
