package arbiter

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// This is an exhaustive model of the barrier: two proposals, two groups, a deadline for each
// proposal, and an arbiter with a stand-by that may be killed at any point. The arbiter's part is
// the real fold. The runtime around it (internal/stage) is modelled: read one entry, publish one
// entry with the fence, write a due entry, die and restart. docs/barrier.md describes the model and
// its coverage.
//
// The fold's state is a function of the ledger, so a process is a position in it. Each position is folded once, from
// the state alone, as if the process had been killed before every entry. Reading has no visible effect. So reading is
// no move of its own: a process that publishes may have read up to any entry after the one that it is known to have
// read.

// never is the script of a group that does not answer.
const never = streams.Verdict(9)

// script has a group's verdicts on the two proposals.
type script [2]streams.Verdict

// A group answers in order: one that skips the first never answers.
func scripts() (all []script) {
	for v := streams.Allow; v <= streams.Deny; v++ {
		for w := streams.Allow; w <= streams.Deny; w++ {
			all = append(all, script{v, w})
		}
		all = append(all, script{v, never})
	}
	return append(all, script{never, never})
}

// limits limits the optional events of a run.
type limits struct {
	proposals  int
	ticks      int // how often time passes a deadline
	procs      int
	crashes    int // kills of an arbiter
	redelivers int // answers that come twice
	dues       int // due entries of one timer
}

// place is a prefix of a ledger, with the fold's output for its last entry.
type place struct {
	up    *place
	n     int // its length
	e     *streams.Entry
	st    *stage.State
	out   *stage.Output // for e
	at    time.Time     // of the earliest timer
	due   *stage.Output
	next  map[string]*place
	says  *streams.VerdictEntry // if e is a verdict
	own   int                   // last entry of the arbiter
	posed [2]int                // positions of the proposals
}

func (p *place) prefix(n int) *place {
	for p.n > n {
		p = p.up
	}
	return p
}

// process is an arbiter: how far it has read at least, the last own entry that it knows of, and the
// input up to which it has answered.
type process struct{ low, own, src int }

// world is a state of the model.
type world struct {
	ledger              *place
	tick                int // how much time has passed
	crashes, redelivers int
	procs               [2]process
}

type model struct {
	t       *testing.T
	like    *Fold
	scripts [2]script
	limits  limits
	seen    map[world]bool
	ends    int // worlds in which no more event is required
	places  int
	bad     int
}

var groupNames = [2]string{"a", "b"}

func (m *model) fail(w world, format string, args ...any) {
	if m.bad++; m.bad > 3 {
		return
	}
	var b strings.Builder
	for n := 1; n <= w.ledger.n; n++ {
		e := w.ledger.prefix(n).e
		fmt.Fprintf(&b, "  %d %s %s src %d %.300s\n", n, e.Stage, e.Type, e.Src, e.Body)
	}
	m.t.Errorf("scripts %v: %s\n%s%+v", m.scripts, fmt.Sprintf(format, args...), b.String(), w.procs)
}

func (m *model) now(tick int) time.Time { return epoch.Add(time.Duration(tick) * 2 * patience) }

// extend appends an entry. Appending equal entries to the same place gives the same place.
func (m *model) extend(w world, stg string, typ streams.Type, src int, body []byte) *place {
	key := fmt.Sprintf("%s %s %d %d %s", stg, typ, src, w.tick, body)
	up := w.ledger
	if p := up.next[key]; p != nil {
		return p
	}
	p := &place{up: up, n: up.n + 1, own: up.own, posed: up.posed, next: map[string]*place{}}
	p.e = &streams.Entry{Seq: uint64(p.n), Time: m.now(w.tick), Stage: stg, Type: typ, Project: "demo", Src: uint64(src),
		Body: body}
	p.st = up.st.Clone()
	f := foldLike(m.like)
	var err error
	if p.out, err = f.Step(p.st, p.e); err != nil {
		m.t.Fatal(err)
	}
	// Ask a new fold for its timer, because a process may be killed after the step.
	var ok bool
	if p.at, p.due, ok, err = foldLike(m.like).Timer(p.st); err != nil {
		m.t.Fatal(err)
	}
	if !ok {
		p.due = nil
	}
	if stg == streams.StageArbiter {
		p.own = p.n
	}
	if typ == streams.TypeVerdict {
		p.says = new(streams.VerdictEntry)
		if err := streams.Unmarshal(body, p.says); err != nil {
			m.t.Fatal(err)
		}
	}
	up.next[key] = p
	m.places++
	return p
}

func (m *model) marshal(v any) []byte {
	b, err := streams.Marshal(v)
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

// answers returns the positions at which a group has answered a proposal.
func (p *place) answers(group string, proposal int) (at []int) {
	for ; p.up != nil; p = p.up {
		if p.e.Type == streams.TypeAssessment && p.e.Src == uint64(proposal) && p.e.Stage == streams.SentinelStage(group) {
			at = append(at, p.n)
		}
	}
	return at
}

// moves returns all possible next worlds. The first `must` of these moves must happen sooner or later. The others are
// optional.
func (m *model) moves(w world) (next []world, must int) {
	to := func(p *place) world { x := w; x.ledger = p; return x }
	l := w.ledger
	// Ingest poses the proposals, in order.
	for i := range m.limits.proposals {
		if l.posed[i] == 0 && (i == 0 || l.posed[0] != 0) {
			if w.tick < m.limits.ticks {
				p := m.extend(w, streams.StageIngest, streams.TypeAction, i+1,
					m.marshal(action(fmt.Sprint("p", i), "read_file", beliefs.L1)))
				p.posed[i] = p.n
				next = append(next, to(p))
			}
			break
		}
	}
	// Groups answer what was posed, in order.
	for g, name := range groupNames {
		for i, v := range m.scripts[g] {
			if l.posed[i] == 0 || v == never {
				break
			}
			said := l.answers(name, l.posed[i])
			if len(said) > 0 {
				continue
			}
			next = append(next, to(m.answer(w, g, i)))
			break
		}
	}
	must = len(next)
	for i := range m.limits.procs {
		pr, said := w.procs[i], -1
		for r := pr.low; r <= l.n; r++ {
			at := l.prefix(r)
			if r > 0 && at.e.Stage == streams.StageArbiter {
				pr.own, pr.src = max(pr.own, r), max(pr.src, int(at.e.Src))
			}
			if pr.own != l.own {
				continue // the fence would refuse it
			}
			n := pr.src + 1
			for ; n <= r && l.prefix(n).out == nil; n++ {
			}
			if n <= r {
				// The process publishes its entry for the next input that it has not answered, as far as it knows.
				if n == said {
					continue
				}
				said = n
				out := l.prefix(n).out
				x := to(m.extend(w, streams.StageArbiter, out.Type, n, out.Body))
				x.procs[i] = process{r, x.ledger.n, n}
				m.check(x)
				next, must = append(next, x), must+1
				continue
			}
			// The process has answered all inputs. It writes a due entry for a timer whose time has passed.
			if at.due == nil || at.at.After(m.now(w.tick)) || !timerMayRun(r, pr.src) {
				continue
			}
			dues := 0
			for p := l; p.up != nil; p = p.up {
				if p.e.Type == streams.TypeDue && bytes.Equal(p.e.Body, at.due.Body) {
					dues++
				}
			}
			if dues < m.limits.dues {
				x := to(m.extend(w, streams.StageArbiter, at.due.Type, r, at.due.Body))
				x.procs[i] = process{r, x.ledger.n, max(pr.src, r)}
				next, must = append(next, x), must+1
			}
		}
	}
	// Time passes if something waits for it.
	if w.tick < m.limits.ticks {
		x := w
		x.tick++
		next = append(next, x)
		if l.posed[0] != 0 {
			must++
		}
	}
	// Optional moves: kills and repeated answers.
	if w.crashes < m.limits.crashes {
		for i := range m.limits.procs {
			if w.procs[i] == (process{}) {
				continue
			}
			x := w
			x.crashes++
			x.procs[i] = process{own: l.own}
			if l.own > 0 {
				x.procs[i].src = int(l.prefix(l.own).e.Src)
			}
			next = append(next, x)
		}
	}
	if w.redelivers < m.limits.redelivers {
		for g, name := range groupNames {
			for i := range 2 {
				if l.posed[i] != 0 && m.scripts[g][i] != never && len(l.answers(name, l.posed[i])) > 0 {
					x := to(m.answer(w, g, i))
					x.redelivers++
					next = append(next, x)
				}
			}
		}
	}
	return next, must
}

// timerMayRun is the runtime's own rule, see ledgerStage.timer: a process looks at the time only
// after it has read its last answered input.
func timerMayRun(read, src int) bool { return read >= src }

func (m *model) answer(w world, g, i int) *place {
	a := &streams.AssessmentEntry{Group: groupNames[g], Digest: rulesDigest, Verdict: m.scripts[g][i]}
	return m.extend(w, streams.SentinelStage(groupNames[g]), streams.TypeAssessment, w.ledger.posed[i], m.marshal(a))
}

// check compares the last entry of a ledger, if it is a verdict, with the invariants.
func (m *model) check(w world) {
	l := w.ledger
	v := l.says
	if v == nil {
		return
	}
	i := slices.Index(l.posed[:], int(v.Proposal))
	if i < 0 {
		m.fail(w, "a verdict on entry %d, which is not a proposal", v.Proposal)
		return
	}
	var before *streams.VerdictEntry
	for p := l.up; p.up != nil && before == nil; p = p.up {
		if p.says != nil && p.says.Proposal == v.Proposal {
			before = p.says
		}
	}
	// No verdict becomes milder or is repeated.
	if before == nil == v.Late {
		m.fail(w, "late is %v, the verdict before is %+v", v.Late, before)
	}
	if before != nil && v.Verdict < before.Verdict {
		m.fail(w, "%s became %s", before.Verdict, v.Verdict)
	}
	// The inputs of a verdict precede it in the ledger, and it is at least as strict as
	// all of them.
	var silent []string
	for g, name := range groupNames {
		heard := slices.ContainsFunc(l.answers(name, l.posed[i]), func(n int) bool { return n <= int(l.e.Src) })
		if heard && v.Verdict < m.scripts[g][i] {
			m.fail(w, "group %s asks for %s", name, m.scripts[g][i])
		}
		if !heard {
			silent = append(silent, name)
		}
	}
	if v.Verdict == streams.Allow && len(silent) > 0 {
		m.fail(w, "allowed without %v", silent)
	}
	if before == nil && !slices.Equal(v.Degraded, silent) {
		m.fail(w, "degraded %v, silent %v", v.Degraded, silent)
	}
	if before == nil && len(silent) > 0 {
		if at := l.prefix(l.posed[i]).e.Time.Add(patience); l.prefix(int(l.e.Src)).e.Time.Before(at) {
			m.fail(w, "decided without %v before the deadline", silent)
		}
	}
	if (v.Hold != nil) != (v.Verdict == streams.Hold) {
		m.fail(w, "%s with hold %+v", v.Verdict, v.Hold)
	}
}

// end checks a world in which no more event is required.
func (m *model) end(w world) {
	m.ends++
	l := w.ledger
	for i, posed := range l.posed {
		if posed == 0 {
			continue
		}
		var first, last *streams.VerdictEntry
		for p := l; p.up != nil; p = p.up {
			if p.says != nil && int(p.says.Proposal) == posed {
				if first = p.says; last == nil {
					last = p.says
				}
			}
		}
		if last == nil {
			m.fail(w, "proposal %d has no verdict", i)
			continue
		}
		want := streams.Allow
		for g := range groupNames {
			if m.scripts[g][i] != never {
				want = want.Join(m.scripts[g][i])
			}
		}
		if len(first.Degraded) > 0 {
			want = want.Join(streams.Hold)
		}
		if last.Verdict != want {
			m.fail(w, "proposal %d is %s in the end, want %s", i, last.Verdict, want)
		}
	}
}

// replay folds a whole ledger with one fold, and compares the outputs with the ledger.
func (m *model) replay(w world) {
	f := foldLike(m.like)
	st := w.ledger.prefix(0).st.Clone()
	says := map[int][]byte{}
	for n := 1; n <= w.ledger.n; n++ {
		p := w.ledger.prefix(n)
		out, err := f.Step(st, p.e)
		if err != nil {
			m.t.Fatal(err)
		}
		if out != nil {
			says[n] = out.Body
		}
		if p.e.Type == streams.TypeVerdict && !bytes.Equal(says[int(p.e.Src)], p.e.Body) {
			m.fail(w, "replayed, entry %d makes\n%s\nand the ledger has\n%s", p.e.Src, says[int(p.e.Src)], p.e.Body)
		}
	}
}

func (m *model) explore(st *stage.State) {
	todo := []world{{ledger: &place{st: st, next: map[string]*place{}}}}
	m.seen = map[world]bool{todo[0]: true}
	for len(todo) > 0 && m.bad == 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		next, must := m.moves(w)
		if must == 0 {
			m.end(w)
			if m.ends%64 == 1 {
				m.replay(w)
			}
		}
		for _, x := range next {
			if !m.seen[x] {
				m.seen[x] = true
				todo = append(todo, x)
			}
		}
	}
}

// pairs returns the pairs of scripts of two groups for this many proposals, without pairs that
// differ only by swapping the groups.
func pairs(proposals int) (all [][2]script) {
	ss := scripts()
	if proposals == 1 {
		ss = []script{{streams.Allow, never}, {streams.Hold, never}, {streams.Deny, never}, {never, never}}
	}
	for i, a := range ss {
		for _, b := range ss[i:] {
			all = append(all, [2]script{a, b})
		}
	}
	return all
}

// telling are pairs that cover all relevant differences.
var telling = [][2]script{
	{{streams.Hold, never}, {streams.Allow, streams.Deny}},
	{{streams.Allow, streams.Hold}, {streams.Deny, streams.Allow}},
	{{streams.Allow, streams.Allow}, {streams.Allow, streams.Allow}},
	{{never, never}, {streams.Allow, streams.Hold}},
}

func TestTheBarrierHoldsInEveryRunOfItsModel(t *testing.T) {
	pol := testPolicy(t)
	like := NewFold(note.VerifierList(), slog.New(slog.DiscardHandler))
	full := os.Getenv("LAZARET_MODEL") == "full"
	for _, c := range []struct {
		what   string
		limits limits
		pairs  [][2]script // the first of them are always tried
		always int
	}{
		{"one proposal; two kills, two answers again, each timer twice", limits{proposals: 1, ticks: 1, procs: 1,
			crashes: 2, redelivers: 2, dues: 2}, pairs(1), 10},
		{"one proposal; a stand-by, a kill, a repeated answer, each timer twice", limits{proposals: 1, ticks: 1, procs: 2,
			crashes: 1, redelivers: 1, dues: 2}, pairs(1), 10},
		{"two proposals", limits{proposals: 2, ticks: 1, procs: 1, dues: 1}, append(slices.Clone(telling), pairs(2)...), 4},
		{"two proposals; a kill, each timer twice", limits{proposals: 2, ticks: 1, procs: 1, crashes: 1, dues: 2}, telling,
			1},
		{"two proposals; a repeated answer", limits{proposals: 2, ticks: 1, procs: 1, redelivers: 1, dues: 1}, telling, 1},
		{"two proposals; a stand-by and a kill", limits{proposals: 2, ticks: 1, procs: 2, crashes: 1, dues: 1}, telling, 1},
		{"two proposals; one deadline after the other, a kill", limits{proposals: 2, ticks: 2, procs: 1, crashes: 1,
			dues: 1}, telling, 0},
	} {
		if !full {
			c.pairs = c.pairs[:c.always]
		}
		if testing.Short() {
			c.pairs = c.pairs[:min(len(c.pairs), 3)]
		}
		if len(c.pairs) == 0 || testing.Short() && c.limits.proposals > 1 {
			continue
		}
		t.Run(c.what, func(t *testing.T) {
			began := time.Now()
			states, ledgers, ends := 0, 0, 0
			for _, p := range c.pairs {
				m := &model{t: t, like: like, scripts: p, limits: c.limits}
				m.explore(emptyState(t, pol))
				states, ledgers, ends = states+len(m.seen), ledgers+m.places, ends+m.ends
				if t.Failed() {
					return
				}
			}
			t.Logf("| %s | %d | %d | %d | %d | %v |", c.what, len(c.pairs), states, ledgers, ends,
				time.Since(began).Round(time.Second))
		})
	}
}
