package ingest

import (
	"slices"
	"testing"
	"time"

	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A text that is read from two sources, in two sessions, is one belief. A search by either source or either session
// must find it. A search by the source of one reading and the session of the other must not.
func TestABeliefIsFoundByEachSourceThatShowedItsText(t *testing.T) {
	h := newHouse(t, offline(t))
	h.keep = true
	s := h.pin()
	const a, b = "https://a.example", "https://b.example"
	const words = "Bonsai trees need the blue liquid that Eve sells"
	id := h.page("p1", "s1", a, words)
	between := h.now
	for _, again := range []string{"p2", "p3"} {
		if other := h.page(again, "s2", b, words); other != id {
			t.Fatalf("%s became another belief, %s", again, other)
		}
	}
	h.page("p4", "s1", a, words)
	h.page("p5", "s3", "https://c.example", "The library closes at nine on Sundays")
	// If a tool returns a text that was read from the web, it is the same belief, although the origins differ.
	if e := h.say(streams.KindObs, beliefs.OriginTool, &streams.Observation{Head: streams.Head{ID: "t1", Session: "s5"},
		Tool: "reader", Source: "https://e.example", Content: words}).(*streams.ObservationEntry); e.Claims[1].Belief.ID !=
		id {
		t.Fatalf("the tool's result became another belief: %+v", e.Claims)
	}
	for _, test := range []struct {
		name string
		q    PinpointRequest
		want bool
	}{
		{"the first source", PinpointRequest{Source: a}, true},
		{"the second source", PinpointRequest{Source: b}, true},
		{"the second session", PinpointRequest{Session: "s2"}, true},
		{"the second source in its session", PinpointRequest{Source: b, Session: "s2"}, true},
		{"the second source in the first session", PinpointRequest{Source: b, Session: "s1"}, false},
		{"the first source in the second session", PinpointRequest{Source: a, Session: "s2"}, false},
		{"the second source after its reading began", PinpointRequest{Source: b, Since: between}, true},
		{"the second source before", PinpointRequest{Source: b, Until: between}, false},
		{"the agent", PinpointRequest{Agent: "agent"}, true},
		{"the tool's source", PinpointRequest{Source: "https://e.example"}, true},
		{"another source", PinpointRequest{Source: "https://d.example"}, false},
	} {
		test.q.Project = "demo"
		p, err := h.f.pinpoint(h.st, &test.q)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(p.Beliefs, func(x PinpointedBelief) bool { return x.ID == id }); got != test.want {
			t.Errorf("%s finds it: %v, want %v", test.name, got, test.want)
		}
	}

	in := h.obeyed(h.newOrder(approval.OpenIncident, ""), s.alice).Incident.ID
	contain := h.newOrder(approval.QuarantineIncident, in)
	contain.Scope = &beliefs.IncidentScope{Source: b}
	h.obeyed(contain, s.alice)
	if got := h.security(id); got != beliefs.Quarantined {
		t.Errorf("after the quarantine of the second source it is %s", got)
	}
	// While the incident is open, another text is first read from another source and then from the quarantined source.
	// It must be quarantined when the quarantined source shows it.
	later := h.page("p6", "s4", a, "The blue liquid is on sale until Friday")
	if got := h.security(later); got != beliefs.Clean {
		t.Fatalf("a text of another source is %s", got)
	}
	h.page("p7", "s4", b, "The blue liquid is on sale until Friday")
	if got := h.security(later); got != beliefs.Quarantined {
		t.Errorf("after the source repeats a text it is %s", got)
	}
}

func TestWhereATextWasReadExpiresWithIt(t *testing.T) {
	x, _ := newExpirer(t)
	id := x.page("p1", "s1", "https://a.example", "Bonsai trees need the blue liquid that Eve sells")
	x.page("p2", "s2", "https://b.example", "Bonsai trees need the blue liquid that Eve sells")
	rows := func() (n int) {
		for _, k := range []byte{keyProvenance, keyProvenBy} {
			if err := x.st.Scan([]byte{k}, func(_, _ []byte) (bool, error) { n++; return true, nil }); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if rows() == 0 {
		t.Fatal("the second source was not recorded")
	}
	x.now = x.now.Add(time.Hour)
	x.expire(x.now)
	x.followUps()
	if r, err := x.f.belief(x.st, "demo", id); err != nil || r != nil {
		t.Fatalf("the belief did not expire: %v, %v", r, err)
	}
	if n := rows(); n > 0 {
		t.Errorf("%d rows are left", n)
	}
	if e := x.read(beliefs.OriginWeb, "p3", "Bonsai trees need the blue liquid that Eve sells"); !slices.ContainsFunc(e.Claims,
		func(c streams.ClaimEntry) bool { return c.Belief.Observation == "p3" }) {
		t.Errorf("a text that comes again is no new belief: %+v", e.Claims)
	}
}

// The text of a call's arguments must include keys that are no plain names, as an address, and large whole numbers, as
// an account number.
func TestTheTextOfAnActionHasItsKeysAndWholeNumbers(t *testing.T) {
	got := argText([]byte(`{"people":{"mallory@evil.example":"writer"},"card":4111111111111111,"n":12345678,"amount":4.5}`))
	if want := "4.5\n4111111111111111\n12345678\nmallory@evil.example\nwriter\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
