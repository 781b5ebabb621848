package ingest

import (
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestWhatBecomesOfBeliefsIsHeldAgainstTheirConfidenceByClass confirms one belief of a class and contradicts another of
// the same class: the class then has a success rate of 0.5. A belief of a second class is confirmed: that class has a
// rate of 1.
func TestWhatBecomesOfBeliefsIsHeldAgainstTheirConfidenceByClass(t *testing.T) {
	h := newHouse(t, offline(t))
	s := h.pin()
	good := h.remember(beliefs.OriginAgent, mem("m1", "The pool opens at six"))
	h.remember(beliefs.OriginAgent, mem("m2", "the depot", triple("depot", "gate", "four")))
	other := h.remember(beliefs.OriginAgent, &streams.Memory{Head: streams.Head{ID: "m3"}, Content: "Tea is preferred",
		Category: "taste"})
	h.confirm(good, s.alice)
	h.remember(beliefs.OriginUser, mem("m4", "no", triple("depot", "gate", "nine")))
	h.confirm(other, s.probe)
	h.followUps()
	req, err := streams.Marshal(ClassesRequest{Project: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := listClasses(h.st, req)
	if err != nil {
		t.Fatal(err)
	}
	all := got.(*ClassesAnswer).Classes
	if len(all) != 2 || all[0].Class != "memory/model_inference" || all[0].N != 2 || all[0].Success != 0.5 ||
		all[0].Confidence != 0.4 || all[1].Class != "memory/model_inference/taste" || all[1].Success != 1 {
		t.Errorf("the classes are %+v", all)
	}
	if b := h.belief(good); b.Ref.Class != "memory/model_inference" {
		t.Errorf("a confirmation changed the class to %s", b.Ref.Class)
	}
}
