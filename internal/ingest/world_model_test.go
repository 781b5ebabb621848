package ingest

import (
	"testing"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestTheWorldModelHoldsWhatClearsTheGateAndShowsWhatDoesNot(t *testing.T) {
	good := beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Normal}
	at := func(h int) time.Time { return epoch.Add(time.Duration(h) * time.Hour) }
	b := func(id, key, content string, axes beliefs.Axes, hour int, triples ...beliefs.Triple) Belief {
		return Belief{BeliefRef: streams.BeliefRef{ID: id, Key: key, Axes: axes, Origin: "user"}, Content: content,
			Memory: true, At: at(hour), Triples: triples}
	}
	bad := good
	bad.Security = beliefs.Quarantined
	read := b("b9", "size", "43", good, 1)
	read.Memory = false
	got := World([]Belief{
		b("b1", "size", "43", good, 1), b("b2", "size", "44", good, 2), b("b3", "size", "12", bad, 3),
		b("b4", "", "no key", good, 3),
		b("b5", "", "Dana lives in Lisbon", good, 1, beliefs.Triple{Subject: "Dana", Predicate: "lives in",
			Object: "Lisbon"}),
		b("b6", "", "Dana lives in Porto", beliefs.Axes{Retrieval: beliefs.Restricted}, 2, beliefs.Triple{Subject: "Dana",
			Predicate: "lives in", Object: "Porto"}),
		read,
	}, at(4))
	want := []struct{ belief, value, withheld string }{{"b2", "44", ""}, {"b1", "43", "older"},
		{"b3", "12", beliefs.ReasonSecurity},
		{"b5", "Lisbon", ""}, {"b6", "Porto", beliefs.ReasonUnverified}}
	if len(got) != len(want) {
		t.Fatalf("the values are %+v", got)
	}
	for i, w := range want {
		if g := got[i]; g.Belief != w.belief || g.Value != w.value || g.Withheld != w.withheld ||
			g.Current != (w.withheld == "") {
			t.Errorf("%d: %+v, want %+v", i, g, w)
		}
	}
	if got := World([]Belief{b("b1", "size", "43", good, 1)}, at(31*24)); got[0].Current ||
		got[0].Withheld != beliefs.ReasonAge {
		t.Errorf("a month later: %+v", got)
	}
}
