package ingest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
)

// Lesson is advice for agents from a memory, for context or for a file that a person
// reads over. It is a view of a belief, so that it stands and falls with it.
type Lesson struct {
	Belief   string    `json:"belief"`
	Text     string    `json:"text"`
	Category string    `json:"category"`
	Origin   string    `json:"origin"`
	Sources  int       `json:"sources"` // different ones that support it
	Since    time.Time `json:"since"`   // since when it has support
	Signed   string    `json:"signed,omitzero"`
}

// LessonCategories are the categories of memories that are lessons, unless a
// harvest names others.
var LessonCategories = []string{"lesson", "experience", "insight", "practice"}

// Harvest selects the lessons.
type Harvest struct {
	Categories []string            // empty: LessonCategories
	Age        time.Duration       // that a lesson has had support for
	Ceiling    beliefs.Sensitivity // the highest that is harvested
}

// Lessons are the memories that have become lessons: of a category, for the whole
// project, admitted to a plan by the default context policy, which wants them supported,
// clean, fresh and of normal retrieval, without a conflict or a flag, and supported for
// some time. Content that was only read, inferred or imported is none, however often it
// comes; a procedure is one if a person signed for it. The longest held come first.
func Lessons(items []Belief, now time.Time, h Harvest) []Lesson {
	if len(h.Categories) == 0 {
		h.Categories = LessonCategories
	}
	pol := beliefs.DefaultContext("planning")
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

// support is since when a class that may support a belief does, and how many
// sources of such a class there are.
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
