package ingest

import (
	"slices"
	"strings"
	"testing"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestABeliefThatWasChangedInTheStateIsNotServed changes a belief in the state, as someone with access to the files
// could, and recalls it. If the text, the digest, the origin, the source or the sensitivity was changed, the recall
// must refuse the belief. A change of its confidence or count is allowed.
func TestABeliefThatWasChangedInTheStateIsNotServed(t *testing.T) {
	long := strings.Repeat("The aquarium on the pier shows jellyfish every afternoon. ", 20)
	for what, change := range map[string]func(h *house, r *record){
		"words": func(_ *house, r *record) { r.Content = strings.Replace(r.Content, "aquarium", "casino!!", 1) },
		"words, digest": func(_ *house, r *record) {
			r.Content = "The aquarium sells."
			r.Digest = streams.Digest([]byte(r.Content))
		},
		"origin":                   func(_ *house, r *record) { r.Ref.Origin = beliefs.OriginSystem },
		"source":                   func(_ *house, r *record) { r.Ref.Source = "user:boss" },
		"sensitivity":              func(_ *house, r *record) { r.Ref.Sensitivity = beliefs.Public },
		"nothing":                  func(*house, *record) {},
		"its confidence and count": func(_ *house, r *record) { r.Ref.Confidence, r.Count = 0.9, 7 },
		"the text of it":           nil,
	} {
		h := newHouse(t, offline(t))
		m := h.remember(beliefs.OriginUser, mem("m1", "The aquarium opens at nine"))
		o := h.read(beliefs.OriginWeb, "o1", long)
		page := o.Claims[len(o.Claims)-1].Belief.ID
		want := 2
		if change == nil {
			if err := h.st.Set(stage.Key(keyText, "demo", page),
				[]byte(strings.Replace(long, "jellyfish", "advertising", 1))); err != nil {
				t.Fatal(err)
			}
			want = 1
		} else {
			r := h.belief(m)
			before := *r
			change(h, r)
			if what != "nothing" && what != "its confidence and count" {
				want = 1
			}
			if r.Ref.ID != before.Ref.ID {
				t.Fatal("another belief")
			}
			if err := h.st.Put(stage.Key(keyBelief, "demo", m), r); err != nil {
				t.Fatal(err)
			}
		}
		e := h.say(streams.KindRecall, "", &streams.Recall{Head: streams.Head{ID: "r1", Session: "s2"},
			Query: "aquarium"}).(*streams.RecallEntry)
		refused := slices.ContainsFunc(e.Refused, func(x streams.Refusal) bool { return x.Reason == beliefs.ReasonIntegrity })
		if n := len(e.Admitted) + len(e.ContextOnly); n != want || refused != (want == 1) {
			t.Errorf("%s was changed: %d served, refused %+v", what, n, e.Refused)
		}
	}
}
