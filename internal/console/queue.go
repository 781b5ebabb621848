package console

import (
	"net/http"
	"strings"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// maxQueue is the maximum number of holds on one page.
const maxQueue = 50

type queueView struct {
	Items []*queued
	Open  int // number of holds that can be signed on this page
}

// queued is a hold of a queue.
type queued struct {
	*holdView
	Why string // the reason why the hold cannot be signed on this page; empty: it can
}

// Reason returns the text of the hold's most important reason, by which lists show it.
func (q *queued) Reason() string { return why(q.Hold).Text }

// queuePage shows several holds on one page, each with its whole content. The query names the holds. Each one needs a
// signature of its own.
func (c *Console) queuePage(r *http.Request, p *page) (string, error) {
	names := r.URL.Query()["hold"]
	if len(names) == 0 || len(names) > maxQueue {
		return "", badRequest("Select 1 to %d holds.", maxQueue)
	}
	v := new(queueView)
	p.Title, p.Nav, p.Data = "Several holds", "holds", v
	seen := make(map[string]bool)
	for _, name := range names {
		project, id, _ := strings.Cut(name, "/")
		if seen[name] {
			continue
		}
		seen[name] = true
		if streams.CheckID("project", project) != nil || streams.CheckID("hold", id) != nil || !p.User.May(project) {
			return "", notFound("There is no hold %s.", text.InertLine(name, 140))
		}
		h, err := c.findHold(r.Context(), project, id)
		if err != nil {
			return "", err
		}
		q := new(queued)
		q.holdView, _ = p.viewOf(h)
		switch {
		case h.State != streams.HoldOpen:
			q.Why = "It is " + h.State + "."
		case q.Unsafe != "":
			q.Why = q.Unsafe
		case len(h.Tools) > 0:
			q.Why = "A list of tools is accepted on its own page, with a level for each tool."
		default:
			v.Open++
		}
		v.Items = append(v.Items, q)
	}
	return "queue", nil
}
