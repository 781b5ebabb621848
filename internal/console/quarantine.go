package console

import (
	"net/http"

	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// maxBlast is the maximum number of beliefs, and of events, that the page of a quarantine lists. The numbers on the
// page include those that are not listed.
const maxBlast = 200

type quarantineView struct {
	Project, ID string
	Rows        []blastRow
	Found, Out  int // number of beliefs that were found, and of those that the quarantine takes out of service
	// number of beliefs that stay because they have independent support, and of those that are out of service already
	Spared, Was int
	Served      int                  // number of the beliefs in Out that recalls for planning return now
	Cut         bool                 // there are more beliefs or events than ingest returns
	Events      []ingest.LineageNode // events that depend on the belief, or on beliefs that derive from it
	Kinds       []kindCount
	More        int // beliefs and events that are not listed
}

type blastRow struct {
	ingest.PinpointedBelief
	Outcome string
}

type kindCount struct {
	Kind  string
	Count int
}

// quarantinePage shows what a quarantine of a belief and its descendants would change, as `lazaret beliefs quarantine
// --dry-run` does. It also shows the command that signs the quarantine.
func (c *Console) quarantinePage(r *http.Request, p *page) (string, error) {
	project, id := r.PathValue("project"), r.PathValue("id")
	p.Nav, p.Title = "beliefs", "Quarantine of "+id
	if streams.CheckID("project", project) != nil || streams.CheckID("id", id) != nil || !p.User.May(project) {
		return "", notFound("There is no belief %s in project %s.", id, project)
	}
	var found ingest.Pinpointed
	err := query.Ask(r.Context(), c.cfg.Conn, ingest.AskPinpoint, streams.PartitionOf(project),
		ingest.PinpointRequest{Project: project, Beliefs: []string{id}, Descendants: true}, &found)
	if err != nil {
		return "", err
	}
	if len(found.Beliefs) == 0 {
		return "", notFound("There is no belief %s in project %s.", id, project)
	}
	v := &quarantineView{Project: project, ID: id, Found: len(found.Beliefs), Cut: found.Cut}
	p.Data = v
	for i := range found.Beliefs {
		v.add(p, &found.Beliefs[i])
	}
	var g ingest.Lineage
	err = query.Ask(r.Context(), c.cfg.Conn, ingest.AskLineage, streams.PartitionOf(project),
		ingest.LineageRequest{Project: project, ID: id, Down: true}, &g)
	if err != nil {
		return "", err
	}
	v.Cut = v.Cut || g.Cut
	v.follow(&g)
	return "quarantine", nil
}

// add adds a belief to the view, in the group that says what the quarantine does to it.
func (v *quarantineView) add(p *page, b *ingest.PinpointedBelief) {
	row := blastRow{PinpointedBelief: *b, Outcome: "is taken out"}
	switch {
	case b.Axes.Security >= beliefs.Quarantined:
		row.Outcome = "is " + b.Axes.Security.String() + " already"
		v.Was++
	case b.Stands != "":
		row.Outcome = "is excluded: it has independent support"
		v.Spared++
	default:
		v.Out++
		if b.Axes.Truth == beliefs.Supported && b.Axes.Retrieval == beliefs.Normal {
			v.Served++
		}
	}
	if len(v.Rows) == maxBlast {
		v.More++
		return
	}
	row.Content = p.believed(&row.Belief)
	v.Rows = append(v.Rows, row)
}

// follow adds to the view the events that depend on the belief, such as decisions and actions.
func (v *quarantineView) follow(g *ingest.Lineage) {
	at := make(map[string]int)
	for _, n := range g.Nodes {
		if n.Kind == ingest.NodeBelief || n.Step <= 0 {
			continue
		}
		i, ok := at[n.Kind]
		if !ok {
			i = len(v.Kinds)
			at[n.Kind] = i
			v.Kinds = append(v.Kinds, kindCount{Kind: n.Kind})
		}
		if v.Kinds[i].Count++; len(v.Events) == maxBlast {
			v.More++
			continue
		}
		n.Content = "" // listed by name only
		v.Events = append(v.Events, n)
	}
}

// Command returns the command that signs the quarantine.
func (v *quarantineView) Command() string {
	return "lazaret beliefs quarantine " + v.ID + " --descendants --project " + v.Project + " --key FILE --reason TEXT"
}
