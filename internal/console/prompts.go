package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"lazaret/internal/arbiter"
	"lazaret/internal/holds"
	"lazaret/internal/ingest"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// proposedPrompt is a prompt that waits in a hold to be registered, with the version that is registered now.
type proposedPrompt struct {
	Project, Name string
	Latest        *streams.PromptVersion // latest registered version; nil: none
	Changes       string                 // difference of the texts; empty: none
	Why           string                 // the reason why the texts were not compared; empty: they were
}

// comparePrompt compares the prompt of a hold with the latest registered version. It returns nil if the hold is not
// about the registration of a prompt.
func (c *Console) comparePrompt(ctx context.Context, p *page, h *arbiter.Hold, body string) *proposedPrompt {
	args := holds.ProposedPrompt(h.Verdict.Tool, body)
	if args == nil {
		return nil
	}
	v := &proposedPrompt{Project: h.Project, Name: args.Name}
	latest, changes, err := holds.Against(ctx, c.cfg.Conn, h.Project, args.Name, args.Text)
	if err != nil {
		v.Why = err.Error()
		return v
	}
	at := []uint64{h.Verdict.Proposal}
	if v.Latest = latest; latest != nil {
		at = append(at, latest.Entry)
	}
	v.Changes = p.Say(h.Project, changes, at...)
	return v
}

type promptsView struct {
	Project, Name string
	Projects      []string
	Rows          []ingest.Prompt
	Version       int
	Versions      []streams.PromptVersion // versions of the named prompt, latest first
	Text, Changes string                  // text of the chosen version, and its difference from the version before it
	Before        int
	Why           string // the reason why the text is not shown; empty: it is shown
}

// promptsPage lists the registered prompts of a project. It shows one of them with its versions.
func (c *Console) promptsPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &promptsView{Project: q.Get("project"), Name: q.Get("name"), Projects: c.index.listProjects(p.User.May)}
	p.Title, p.Nav, p.Data = "Prompts", "tools", v
	if v.Project == "" && len(v.Projects) > 0 {
		v.Project = v.Projects[0]
	}
	if v.Project == "" {
		return "prompts", nil
	}
	if streams.CheckID("project", v.Project) != nil || !p.User.May(v.Project) ||
		v.Name != "" && streams.CheckID("prompt", v.Name) != nil {
		return "", notFound("There is no such prompt.")
	}
	list, err := holds.Prompts(r.Context(), c.cfg.Conn, v.Project, v.Name)
	if err != nil {
		return "", err
	}
	if v.Name == "" {
		v.Rows = list
		return "prompts", nil
	}
	if len(list) == 0 {
		return "", notFound("Project %s has no prompt %s.", v.Project, v.Name)
	}
	v.Versions = list[0].Versions
	slices.Reverse(v.Versions)
	v.Version = v.Versions[0].Version
	if s := q.Get("version"); s != "" {
		v.Version, _ = strconv.Atoi(s)
	}
	p.Title = "Prompt " + v.Name
	i := slices.IndexFunc(v.Versions, func(x streams.PromptVersion) bool { return x.Version == v.Version })
	if i < 0 {
		return "", notFound("Prompt %s has no version %s.", v.Name, text.InertLine(q.Get("version"), 40))
	}
	said, err := holds.PromptText(r.Context(), c.cfg.Conn, &v.Versions[i])
	if err != nil {
		v.Why = err.Error()
		return "prompts", r.Context().Err()
	}
	v.Text = text.Inert(p.Say(v.Project, said, v.Versions[i].Entry))
	if i+1 == len(v.Versions) {
		return "prompts", nil
	}
	before := &v.Versions[i+1]
	was, err := holds.PromptText(r.Context(), c.cfg.Conn, before)
	if err != nil {
		v.Why = err.Error()
		return "prompts", r.Context().Err()
	}
	v.Before = before.Version
	v.Changes = p.Say(v.Project, holds.PromptDiff(fmt.Sprintf("%s@%d", v.Name, before.Version), was,
		fmt.Sprintf("%s@%d", v.Name, v.Version), said), before.Entry, v.Versions[i].Entry)
	return "prompts", nil
}
