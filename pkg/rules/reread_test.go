package rules

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"lazaret/pkg/internal/randomrules"
	"lazaret/pkg/signals/index"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// One signal index stays in memory, and another one is reloaded from its records at random times. Both must give the
// same alerts and the same store, byte for byte, while old generations are dropped in both.
func TestABookThatIsReadAgainIsTheSame(t *testing.T) {
	small := index.Limits{Postings: [...]int{60, 80, 30, 20}, Links: [...]int{40, 200, 30}, AllLinks: 200, Lag: 150,
		Origins: 16}
	before := index.SetLimits(small)
	defer index.SetLimits(before)
	set := testSet(t, map[string]string{"p/pack.yaml": "name: p\ntitle: T\n", "p/r.yaml": `rules:
  - {id: a, title: T, severity: low, subject: action, message: "'%s'.format([action.lineage.map(l, [l.carried, l.value, l.observation, l.source, string(l.user)])])", on: [action], effect: alert, when: action.lineage.size() > 0}
  - {id: b, title: T, severity: low, subject: action, message: "'%s'.format([signal.fragments.map(f, f.events)])", on: [action], effect: alert, when: signal.fragments.size() > 0}
  - {id: c, title: T, severity: low, subject: memory, message: "'%d %d %d'.format([signal.cluster_size, signal.cluster_sources, signal.cluster_sessions])", on: [observation, memory], effect: alert, when: signal.cluster_size > 1}
  - {id: e, title: T, severity: low, subject: action, message: "'%s'.format([signal.echo.map(s, [s.observation, s.value])])", on: [action], effect: alert, when: signal.echo.size() > 0}
  - {id: f, title: T, severity: low, subject: memory, message: "'%s'.format([signal.pushes.map(p, [p.target, string(p.count)])])", on: [memory], effect: alert, when: signal.pushes.size() > 0}
  - {id: d, title: T, severity: low, subject: memory, message: "'%s'.format([signal.partial])", on: [memory], effect: alert, when: signal.partial.size() > 0}
`})
	ev := set.Group("core")
	r := rand.New(rand.NewPCG(3, 9))
	kept, again := index.NewMemStore(), index.NewMemStore()
	fired := make(map[string]int)
	turned, compacted := false, false
	var ended [3]bool
	entries := 3000
	if testing.Short() {
		entries = 1200
	}
	for i := range entries {
		e := bookEntry(r, i+1)
		a, err := ev.Eval(kept, e)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) == 0 {
			*again.Memo() = nil
		}
		b, err := ev.Eval(again, e)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("entry %d:\n%+v\n%+v", i+1, a, b)
		}
		for _, al := range a.Alerts {
			fired[al.Rule]++
		}
		if x, y := contents(kept), contents(again); i%250 == 0 && !slices.Equal(x, y) {
			t.Fatalf("after entry %d the stores differ", i+1)
		}
		for _, u := range index.Usages(kept) {
			turned, compacted = turned || u.Dropped, compacted || u.Compacted
			for id, n := range u.Postings {
				if n > small.Postings[id]/2+60 {
					t.Fatalf("posting table %d: %d of at most %d in one generation", id, n, small.Postings[id]/2)
				}
			}
			for id, n := range u.Links {
				if n > small.Links[id]/2+60 || u.AllLinks[id] > small.AllLinks/2+200 {
					t.Fatalf("table of links %d: %d hashes and %d links in one generation", id, n, u.AllLinks[id])
				}
				if u.Lag[id] > small.Lag+1 {
					t.Fatalf("table of links %d keeps %d records", id, u.Lag[id])
				}
				ended[id] = ended[id] || u.Turned[id]
			}
		}
	}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		if fired[id] < 10 {
			t.Errorf("rule %s fired %d times: the test shows nothing", id, fired[id])
		}
	}
	if !turned || !compacted || slices.Contains(ended[:], false) {
		t.Error("no record or no head was dropped: the test shows nothing")
	}
}

// contents returns all keys and values of a store.
func contents(m *index.MemStore) []string {
	var out []string
	m.Scan(nil, func(k, v []byte) (bool, error) {
		out = append(out, fmt.Sprintf("%x=%x", k, v))
		return true, nil
	})
	return out
}

// bookEntry returns a random entry. Its words, addresses and pieces sometimes repeat those of earlier entries.
func bookEntry(r *rand.Rand, seq int) *streams.Entry {
	e := randomrules.Entry(r, seq)
	word := func() string { return fmt.Sprintf("w%c%c", 'a'+r.IntN(26), 'a'+r.IntN(26)) }
	s := ""
	for range 5 + r.IntN(30) {
		s += word() + " "
	}
	if r.IntN(3) == 0 {
		s = fmt.Sprintf("the report number %d of the fourth quarter goes to the team in the second building", r.IntN(6))
	}
	s += fmt.Sprintf(" u%d@h%d.example", r.IntN(8), r.IntN(9))
	if r.IntN(3) == 0 {
		s += fmt.Sprintf(". Please %s the report number %d to %s, u%d@h%d.example",
			[]string{"send", "drop", "tool"}[r.IntN(3)], r.IntN(5), word(), r.IntN(8), r.IntN(9))
	}
	part := func(i int) string { return fmt.Sprintf("part%02d-", i) }
	f := text.Analyze(s)
	var body any
	switch e.Type {
	case streams.TypeObservation:
		o := new(streams.ObservationEntry)
		must(streams.Unmarshal(e.Body, o))
		s += " " + part(r.IntN(12))
		o.Blocks[0] = streams.BlockEntry{Text: s, Features: text.Analyze(s)}
		body = o
	case streams.TypeMemory:
		m := new(streams.MemoryEntry)
		must(streams.Unmarshal(e.Body, m))
		m.Content, m.Features = s, f
		body = m
	default:
		a := new(streams.ActionEntry)
		must(streams.Unmarshal(e.Body, a))
		a.Text = s + " " + part(r.IntN(12)) + part(r.IntN(12)) + part(r.IntN(12))
		a.Features = text.Analyze(a.Text)
		body = a
	}
	b, err := streams.Marshal(body)
	must(err)
	e.Body = b
	return e
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
