package ingest

import (
	"fmt"
	"testing"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// An entry that no event caused, such as one with revisions or a re-audit, lists beliefs about one person at most.
// Together, the entries of a re-audit list every belief, and those with revisions list each belief once.
func TestEntriesOfManyBeliefsAreOfOnePersonEach(t *testing.T) {
	w := newWorld(t)
	of := map[string]streams.Person{}
	for i := range 60 {
		head := streams.Head{ID: fmt.Sprintf("m%d", i), Session: "s"}
		switch i % 4 {
		case 1:
			head.DataSubject = "p-17"
		case 2:
			head.DataSubject, head.User = "p-18", "u"
		case 3:
			head.User = "p-17"
		}
		m := &streams.Memory{Head: head, Content: fmt.Sprintf("thing number %d is in drawer %d", i, i*i),
			Scope: streams.ScopeProject, TTL: 60}
		of[w.remember("demo", "a", beliefs.OriginUser, m, streams.Allow)] = streams.Person{DataSubject: head.DataSubject,
			User: head.User}
	}
	added := func(typ streams.Type) (entries int, seen map[string]int) {
		seen = map[string]int{}
		for n := 0; ; n++ {
			a, err := w.fold.FollowUp(w.st)
			if err != nil {
				t.Fatal(err)
			}
			if a == nil {
				return entries, seen
			}
			var ids []string
			switch b := a.Decided.(type) {
			case *streams.BeliefsEntry:
				for i := range b.Beliefs {
					ids = append(ids, b.Beliefs[i].ID)
				}
			case *streams.RevisionsEntry:
				for i := range b.Revisions {
					ids = append(ids, b.Revisions[i].Belief)
				}
			}
			if a.Type == typ {
				entries++
				for _, id := range ids {
					if seen[id]++; of[id] != headOf(a.Decided).Of() {
						t.Errorf("%s: belief about %+v in an entry about %+v", typ, of[id], headOf(a.Decided).Of())
					}
				}
			}
			w.add(streams.Entry{Stage: streams.StageIngest, Type: a.Type, Project: a.Project, Src: w.intake, Body: a.Body},
				a.Decided)
			if n > 500 {
				t.Fatal("ingest has more than 500 pending entries")
			}
		}
	}
	added(streams.TypeBelief)
	// Change some beliefs to those of an earlier version, which had no index of beliefs by person.
	for i := range 60 {
		id := beliefID("memory", "demo", "a", fmt.Sprintf("m%d", i))
		if i%5 == 0 && of[id] != (streams.Person{}) {
			if err := w.st.Delete(personKey("demo", of[id], id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.fold.startReaudit(w.st, "rules x"); err != nil {
		t.Fatal(err)
	}
	if n, seen := added(streams.TypeBelief); n < 4 || n > 30 || len(seen) != 60 {
		t.Errorf("a re-audit of %d entries met %d beliefs, want 60", n, len(seen))
	}
	w.now = w.now.Add(time.Hour)
	w.observe("demo", "a", beliefs.OriginUser, "An hour later.")
	n, seen := added(streams.TypeRevision)
	for id := range of {
		if seen[id] != 1 {
			t.Errorf("belief %s came of age %d times", id, seen[id])
		}
	}
	if n < 4 {
		t.Errorf("%d entries say that 60 beliefs about four persons came of age", n)
	}
}
