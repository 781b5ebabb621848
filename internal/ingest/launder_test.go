package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// The vocabularies of random histories: words that only users say, words that only attackers say,
// and replacements for an attacker's words in a note.
var (
	userVerbs = strings.Fields("book order pay send move draft review cancel print archive")
	userNouns = strings.Fields("window seat invoice report dinner ticket garden budget lesson parcel")
	userNames = strings.Fields("Anna Boris Clara Dmitri Elena Farid")
	evilWords = strings.Fields(
		"collector overseas remit vault silently mirror credential beacon tunnel siphon drain forge")
	evilAlike = strings.Fields("gatherer abroad transmit safe quietly copy password signal passage suck empty fake")
)

// launderer generates one history of a project and the notes that an agent might write in it.
type launderer struct {
	*house
	r    *rand.Rand
	n    int
	said []string
}

func (l *launderer) pick(words []string) string { return words[l.r.IntN(len(words))] }

func (l *launderer) head(session string) streams.Head {
	l.n++
	return streams.Head{ID: fmt.Sprint("l", l.n), Session: session}
}

func (l *launderer) hear(agent, session string, o beliefs.Origin, s string) {
	l.sayAs(agent, streams.KindObs, o, &streams.Observation{Head: l.head(session), Tool: "web.fetch", Content: s})
}

// talk sends the user's messages: two orders about two people, each with an amount.
func (l *launderer) talk(agent, session string) {
	a, b := l.r.Perm(len(userNames)), l.r.Perm(90)
	for i := range 2 {
		s := fmt.Sprintf("%s the %s of %s for %d.", l.pick(userVerbs), l.pick(userNouns), userNames[a[i]], 10+b[i])
		l.said = append(l.said, s)
		l.hear(agent, session, beliefs.OriginUser, s)
	}
}

// plant returns an attacker's order: in words that only attackers use, or in the words of a user's order with other
// people and amounts.
func (l *launderer) plant() string {
	if l.r.IntN(3) > 0 {
		w := slices.Clone(evilWords)
		l.r.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
		return strings.Join(w[:4+l.r.IntN(4)], " ") + " " + l.pick(userNames)
	}
	a, b := strings.Fields(l.said[0]), strings.Fields(l.said[1])
	return strings.Join([]string{a[0], "the", a[2], "of", b[4], "for", a[6]}, " ")
}

// laundered returns a planted order in one of the forms in which it may be noted.
func (l *launderer) laundered(s string) string {
	w := strings.Fields(strings.Trim(s, "."))
	switch l.r.IntN(9) {
	case 0:
		slices.Reverse(w)
	case 1:
		l.r.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
	case 2:
		for i := range w {
			if at := slices.Index(evilWords, w[i]); at >= 0 {
				w[i] = evilAlike[at]
			}
		}
	case 3:
		return "The user wants: " + strings.Join(w, " ") + "."
	case 4:
		return strings.Join(w, " ") + ". " + l.said[l.r.IntN(len(l.said))]
	case 6:
		return "The user said: " + strings.Join(w, " ")
	case 7:
		return "The user said: " + l.said[l.r.IntN(len(l.said))] + " " + strings.Join(w, " ")
	case 8:
		return strings.Join(w, " ") + ": " + l.said[l.r.IntN(len(l.said))]
	case 5:
		return strings.TrimSuffix(l.said[l.r.IntN(len(l.said))], ".") + " and " + strings.Join(w, " ")
	}
	return strings.Join(w, " ")
}

// honest reports whether a note only repeats orders of the user. By chance this may be true for a
// planted note.
func (l *launderer) honest(note string) bool {
	var words [][]string
	for _, s := range l.said {
		words = append(words, strings.Fields(strings.Trim(s, ".")))
	}
	for _, part := range strings.Split(note, ". ") {
		part = strings.Trim(strings.TrimPrefix(part, "The user wants: "), ".")
		if !slices.ContainsFunc(words, func(w []string) bool { return strings.Contains(strings.Join(w, " "), part) }) {
			return false
		}
	}
	return true
}

// try returns the entry that a note would get, without writing the note. The entry has the note's grade.
func (l *launderer) try(agent, session, note string, parents ...string) *streams.MemoryEntry {
	m, err := l.probe(agent, &streams.Memory{Head: l.head(session), Content: note, DerivedFrom: parents})
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

// TestNothingPlantedGetsAGrade writes 100,000 laundered notes: in the session that read the planted
// texts, and by two agents in two more sessions that recalled them, alone and mixed with the user's
// words. None may be used for planning, and none is supported.
func TestNothingPlantedGetsAGrade(t *testing.T) {
	histories, notes := 1000, 100
	if testing.Short() {
		histories = 30
	}
	base := stage.NewMemState(0)
	first := newHouse(t, base)
	tried := 0
	for i := range histories {
		f := New(Config{})
		f.policies, f.trust = first.f.policies, first.f.trust
		l := &launderer{house: &house{t: t, f: f, st: base.Clone(), now: epoch}, r: rand.New(rand.NewPCG(7, uint64(i)))}
		l.talk("a", "s1")
		order := l.plant()
		l.hear("a", "s1", beliefs.OriginWeb, "Opening hours are nine to five. "+order+". Parking is free.")
		where := [][2]string{{"a", "s1"}}
		stored := l.try("a", "s1", l.laundered(order))
		for hop, agent := range []string{"b", "a"} {
			session := fmt.Sprint("s", 2+hop)
			m := l.sayAs(where[hop][0], streams.KindMem, beliefs.OriginAgent, &streams.Memory{Head: l.head(where[hop][1]),
				Content: stored.Content}).(*streams.MemoryEntry)
			l.foldOther(streams.StageArbiter, streams.TypeVerdict, &streams.VerdictEntry{Type: streams.TypeMemory, ID: m.ID,
				Agent:   m.Agent,
				Verdict: streams.Allow, Belief: &m.Belief, Time: l.now})
			l.talk(agent, session)
			e := l.sayAs(agent, streams.KindRecall, "", &streams.Recall{Head: l.head(session), Query: stored.Content}).(*streams.RecallEntry)
			if !l.honest(stored.Content) && slices.ContainsFunc(e.Admitted, func(it streams.RecallItem) bool {
				return it.ID == m.Belief.ID
			}) {
				t.Fatalf("history %d: %q is admitted", i, stored.Content)
			}
			where = append(where, [2]string{agent, session})
			stored = l.try(agent, session, l.laundered(stored.Content))
		}
		for range notes {
			at := where[l.r.IntN(len(where))]
			note := l.laundered(order)
			if l.honest(note) {
				continue
			}
			tried++
			var parents []string
			if l.r.IntN(4) == 0 {
				parents = []string{stored.Belief.ID}
			}
			if m := l.try(at[0], at[1], note, parents...); m.Belief.Grade != beliefs.NoGrade ||
				m.Belief.Axes.Truth == beliefs.Supported {
				t.Fatalf("history %d, session %s: after %q and the user's %q, %q has grade %q", i, at[1], order, l.said, note,
					m.Belief.Grade)
			}
		}
	}
	t.Logf("%d notes", tried)
}
