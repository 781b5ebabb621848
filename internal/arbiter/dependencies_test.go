package arbiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lazaret/internal/stage"
)

// The beliefs recalled in a session are stored in order of arrival, each once. The oldest is
// evicted.
func TestASessionsRecallsAreAListOfTheLatest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		st := stage.NewMemState(0)
		var want []dependency
		for range 40 {
			p := &proposal{Project: "p", Agent: "a", Session: "s"}
			for range r.IntN(20) {
				id := fmt.Sprint("b", r.IntN(300))
				p.Rests = append(p.Rests, dependency{Rel: relFound, Belief: id, Agent: "a", Observation: "o" + id,
					Source: "https://example.com/" + id})
			}
			for _, x := range p.Rests {
				x.Rel = relRecalled
				if !slices.ContainsFunc(want, func(w dependency) bool { return w.Belief == x.Belief }) {
					want = append(want, x)
				}
			}
			want = want[max(0, len(want)-maxRecalled):]
			if err := storeRecalled(st, p); err != nil {
				t.Fatal(err)
			}
			got, err := recalledIn(st, p)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("the session's recalled beliefs are %v, %v, want %v", got, err, want)
			}
		}
	}
}

func TestADamagedListOfRecallsIsRefused(t *testing.T) {
	p := &proposal{Project: "p", Agent: "a", Session: "s", Rests: []dependency{{Belief: "b1", Source: "x"}}}
	st := stage.NewMemState(0)
	if err := storeRecalled(st, p); err != nil {
		t.Fatal(err)
	}
	key := stage.Key(keyRecalled, p.Project, p.Agent+"\x00"+p.Session)
	v, _, err := st.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(v); n++ {
		if err := st.Set(key, v[:n]); err != nil {
			t.Fatal(err)
		}
		if _, err := recalledIn(st, p); err == nil {
			t.Errorf("the first %d of %d bytes are read as a list", n, len(v))
		}
		if err := storeRecalled(st, p); err == nil {
			t.Errorf("the first %d of %d bytes are added to", n, len(v))
		}
	}
}
