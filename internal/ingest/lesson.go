package ingest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
)

// Lesson is advice for agents, taken from a memory. An agent may use it as context, or a person may review it. Lessons
// are computed from beliefs: when a belief no longer qualifies, its lesson disappears.
type Lesson struct {
	Belief   string    `json:"belief"`
	Text     string    `json:"text"`
	Category string    `json:"category"`
	Origin   string    `json:"origin"`
	Sources  int       `json:"sources"` // number of different sources that support it
	Since    time.Time `json:"since"`   // time of the oldest support
	Signed   string    `json:"signed,omitzero"`
}

// LessonCategories are the categories of memories that are lessons, unless Harvest.Categories names others.
var LessonCategories = []string{"lesson", "experience", "insight", "practice"}

// Harvest selects lessons.
type Harvest struct {
	Categories []string            // empty: LessonCategories
	Age        time.Duration       // minimum time since the oldest support
	Ceiling    beliefs.Sensitivity // highest sensitivity of a lesson
}

// Lessons returns the memories that qualify as lessons, those with the oldest support first.
//
// A lesson has one of the harvest's categories and belongs to the whole project. The default context policy admits it
// to a plan: it is supported, clean and fresh, and its retrieval is normal. It has no conflict and no flag, and has
// been supported for at least h.Age. Content that was only read, inferred or imported does not qualify, however often
// it is repeated. A procedure qualifies only if a person signed it.
func Lessons(items []Belief, now time.Time, h Harvest) []Lesson {
	if len(h.Categories) == 0 {
		h.Categories = LessonCategories
	}
	pol := beliefs.DefaultContext(beliefs.PurposePlanning)
	pol.ContextOnly, pol.MaxAge, pol.MaxExternal, pol.Ceiling = false, 0, 0, h.Ceiling
	out := []Lesson{}
	for i := range items {
		b := &items[i]
		if !b.Memory || !slices.Contains(h.Categories, b.Category) || b.Namespace != (beliefs.Namespace{}) {
			continue
		}
		r := pol.Judge(now, beliefs.Asker{}, []beliefs.Candidate{{Axes: b.Axes, Sensitivity: b.Sensitivity,
			Origin: b.Origin, At: b.At, ValidFrom: b.From, ValidTo: b.To}})[0]
		if r.Channel != beliefs.Admitted || b.Staged || len(b.Conflicts) > 0 || b.Flag != "" || b.Successor != "" ||
			b.Procedure && b.Signed == "" {
			continue
		}
		since, sources := support(b.Evidence)
		if sources == 0 || now.Sub(since) < h.Age {
			continue
		}
		out = append(out, Lesson{Belief: b.ID, Text: b.Content, Category: b.Category, Origin: string(b.Origin),
			Sources: sources, Since: since, Signed: b.Signed})
	}
	slices.SortFunc(out, func(a, b Lesson) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Belief, b.Belief))
	})
	return out
}

// support returns the time of the oldest supporting evidence, and the number of sources of supporting evidence. It
// counts only evidence of a class that may support a belief.
func support(es beliefs.EvidenceSet) (since time.Time, sources int) {
	from := make(map[string]bool)
	for _, e := range es {
		if e.Relation != beliefs.Supports || !e.Quality.MaySupport() {
			continue
		}
		from[e.Source] = true
		if since.IsZero() || e.At.Before(since) {
			since = e.At
		}
	}
	return since, len(from)
}
