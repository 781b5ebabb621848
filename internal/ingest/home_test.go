package ingest

import (
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestWhatIsSharedFromAnotherProjectNeverArrivesAsTrusted shares memories of every origin from another project, with
// credentials of every origin. Each must arrive as external, unsupported and context only, and must not take the key of
// a memory here. After a person confirms such a memory, it is supported.
func TestWhatIsSharedFromAnotherProjectNeverArrivesAsTrusted(t *testing.T) {
	h := newHouse(t, offline(t))
	s := h.pin()
	own := h.remember(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "own"}, Key: "size",
		Content: "My size is 43"})
	h.read(beliefs.OriginUser, "said", "The gate is four") // the shared text is equal to words of the user here
	for _, there := range beliefs.Origins() {
		for _, by := range beliefs.Origins() {
			id := "m-" + string(there) + "-" + string(by)
			e := h.write(by, &streams.Memory{Head: streams.Head{ID: id}, Key: "size", Content: "The gate is four",
				Home: &beliefs.Home{Project: "other", Belief: "b1", Origin: there}})
			h.verdict(e, streams.Allow)
			h.followUps()
			r := h.belief(e.Belief.ID)
			if a := r.Ref.Axes; a.Truth == beliefs.Supported || a.Retrieval == beliefs.Normal || !r.Ref.Origin.External() ||
				!r.Ref.Staged || r.Ref.Quality.MaySupport() || e.UserWord || r.Ref.Scope != beliefs.ContextOnly {
				t.Errorf("%s from %s: %+v", by, there, r.Ref)
			}
			if r.Ref.Home.Origin != there || r.Ref.Home.Project != "other" || r.Ref.Source != "project:other" {
				t.Errorf("%s from %s: its home is %+v", by, there, r.Ref.Home)
			}
		}
	}
	if x := h.holder("size"); x.Ref.ID != own {
		t.Errorf("a memory shared from another project took the key: %+v", x)
	}
	e := h.write(beliefs.OriginDocument, &streams.Memory{Head: streams.Head{ID: "good"}, Content: "The gate is five",
		Home: &beliefs.Home{Project: "other", Belief: "b2", Origin: beliefs.OriginUser}})
	h.verdict(e, streams.Allow)
	h.confirm(e.Belief.ID, s.alice)
	if a := h.belief(e.Belief.ID).Ref.Axes; a.Truth != beliefs.Supported || a.Retrieval != beliefs.Normal {
		t.Errorf("a person's confirmation made it %+v", a)
	}
	for _, bad := range []beliefs.Home{{Project: "demo", Belief: "b", Origin: "user"}, {Project: "o.ther", Belief: "b",
		Origin: "user"}, {Project: "other", Origin: "user"}, {Project: "other", Belief: "b", Origin: "boss"}} {
		if e, ok := h.say(streams.KindMem, beliefs.OriginDocument, &streams.Memory{Head: streams.Head{ID: "bad"},
			Content: "x", Home: &bad}).(*streams.RejectedEntry); !ok || e.Code != streams.CodeInvalid {
			t.Errorf("%+v was taken: %+v", bad, e)
		}
	}
}
