package console

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"slices"

	"lazaret/internal/arbiter"
	"lazaret/internal/ingest"
	"lazaret/internal/lineage"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

// maxBeliefs is the maximum number of beliefs on a page.
const maxBeliefs = 100

type beliefsView struct {
	Project, After, Next string
	Projects             []string
	Rows                 []ingest.Belief
}

func (c *Console) beliefsPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &beliefsView{Project: q.Get("project"), After: q.Get("after"), Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Data = "Beliefs", "beliefs", v
	if v.Project == "" && len(v.Projects) > 0 {
		v.Project = v.Projects[0]
		if ss := c.index.listSessions(p.User.May); len(ss) > 0 {
			v.Project = ss[0].Project // the project with the latest session
		}
	}
	if v.Project == "" {
		return "beliefs", nil
	}
	if streams.CheckID("project", v.Project) != nil || !p.User.May(v.Project) {
		return "", notFound("There is no project %s.", v.Project)
	}
	var ans ingest.BeliefsAnswer
	err := query.Ask(r.Context(), c.cfg.Conn, ingest.AskBeliefs, streams.PartitionOf(v.Project),
		ingest.BeliefsRequest{Project: v.Project, After: v.After, Limit: maxBeliefs}, &ans)
	if err != nil {
		return "", err
	}
	v.Rows, v.Next = ans.Beliefs, ans.Next
	for i := range v.Rows {
		v.Rows[i].Content = p.believed(&v.Rows[i])
	}
	return "beliefs", nil
}

// believed returns the content of a belief. If the user may not read the content, it returns a text that says so.
func (p *page) believed(b *ingest.Belief) string {
	if !p.sees(b.Project, b.Sensitivity) {
		return redacted(b.Sensitivity)
	}
	return p.Say(b.Project, b.Content)
}

type beliefView struct {
	ingest.Belief
	Shown  string // the content, safe to look at
	JSON   bool   // Shown is a JSON string, since the content has characters that cannot be shown
	Unsafe string // the reason why the belief cannot be attested on this page; empty: it can
	// Clears are the keys of the findings that a confirmation on this page clears, and Cleared are the texts of these
	// findings. Kept are the texts of findings that it cannot clear. There are two reasons for that: the arbiter has
	// not stored the rule's whole message, or an attestation cannot name more findings (approval.MaxFindings).
	Clears        []string
	Cleared, Kept []string
	Drawing       template.HTML
	Graph         *ingest.Lineage
}

// Command returns the command line with which a person attests the belief with a key file. d is the decision.
func (v *beliefView) Command(d string) string {
	return "lazaret beliefs " + d + " " + v.ID + " --project " + v.Project + " --key FILE"
}

// findBelief asks ingest for a belief.
func (c *Console) findBelief(ctx context.Context, project, id string) (*ingest.Belief, error) {
	if cmp.Or(streams.CheckID("project", project), streams.CheckID("id", id)) != nil {
		return nil, notFound("There is no such belief.")
	}
	var ans ingest.BeliefsAnswer
	err := query.Ask(ctx, c.cfg.Conn, ingest.AskBeliefs, streams.PartitionOf(project),
		ingest.BeliefsRequest{Project: project, ID: id}, &ans)
	if err == nil && len(ans.Beliefs) == 0 {
		err = notFound("There is no belief %s in project %s.", id, project)
	}
	if err != nil {
		return nil, err
	}
	return &ans.Beliefs[0], nil
}

// show sets the content in a form that is safe to display. The page must be able to compute the content's digest from
// this form. If it cannot, show sets Unsafe.
func (v *beliefView) show(p *page) {
	said := p.believed(&v.Belief)
	if v.Shown, v.JSON = inertText(said); said != v.Content {
		v.Unsafe = "You may not see the belief, so you cannot sign a decision on it."
	} else if streams.Digest([]byte(v.Content)) != v.Digest {
		v.Unsafe = "The content is shown in part, so this page cannot compute its digest: sign with a key file."
	}
	v.Content = said
}

// findings sets the fields about those findings because of which recalls leave out the belief.
func (c *Console) findings(ctx context.Context, p *page, v *beliefView) error {
	var all []arbiter.Finding
	err := query.Ask(ctx, c.cfg.Conn, arbiter.AskFindings, streams.PartitionOf(v.Project),
		arbiter.FindingsRequest{Project: v.Project, Agent: v.Agent, Belief: v.BeliefRef}, &all)
	if err != nil {
		return err
	}
	for _, x := range all {
		said := redacted(v.Sensitivity)
		if p.sees(v.Project, v.Sensitivity) {
			said = p.Say(v.Project, x.Text)
		}
		if x.More || len(v.Clears) == approval.MaxFindings {
			v.Kept = append(v.Kept, said)
			continue
		}
		v.Clears, v.Cleared = append(v.Clears, x.Key), append(v.Cleared, said)
	}
	slices.Sort(v.Clears)
	return nil
}

func (c *Console) beliefPage(r *http.Request, p *page) (string, error) {
	project, id := r.PathValue("project"), r.PathValue("id")
	p.Nav = "beliefs"
	if !p.User.May(project) {
		return "", notFound("There is no belief %s in project %s.", id, project)
	}
	b, err := c.findBelief(r.Context(), project, id)
	if err != nil {
		return "", err
	}
	v := &beliefView{Belief: *b, Graph: new(ingest.Lineage)}
	v.show(p)
	if err := c.findings(r.Context(), p, v); err != nil {
		return "", err
	}
	p.Title, p.Data = "Belief "+id, v
	err = query.Ask(r.Context(), c.cfg.Conn, ingest.AskLineage, streams.PartitionOf(project),
		ingest.LineageRequest{Project: project, ID: id, Up: true, Down: true}, v.Graph)
	if err != nil {
		return "", err
	}
	for i := range v.Graph.Nodes {
		n := &v.Graph.Nodes[i]
		n.Content = p.Say(project, n.Content)
		if n.Belief != nil && !p.sees(project, n.Belief.Sensitivity) {
			n.Content = redacted(n.Belief.Sensitivity)
		}
	}
	shown := *v.Graph
	if shown.Nodes = shown.Nodes[:min(len(shown.Nodes), 60)]; len(shown.Nodes) < len(v.Graph.Nodes) {
		known := make(map[string]bool)
		for _, n := range shown.Nodes {
			known[n.ID] = true
		}
		shown.Edges = slices.DeleteFunc(slices.Clone(shown.Edges), func(e ingest.LineageEdge) bool {
			return !known[e.From] || !known[e.To]
		})
	}
	v.Drawing = template.HTML(lineage.SVG(&shown)) // SVG escapes its input
	return "belief", nil
}
