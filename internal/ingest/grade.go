package ingest

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/lexical"
	"lazaret/pkg/text"
	"lazaret/pkg/text/approval"
	"lazaret/pkg/text/command"
	"lazaret/streams"
)

// This file decides which unverified content an agent may use for planning: notes of an agent that contain nothing
// foreign, and results of systems of record. Such notes and results get a grade (beliefs.Grade). A grade never makes a
// belief supported. Foreign means here: from neither the user, nor the operator, nor the agent itself. For each
// session, the state records whether the user or operator has said anything, and which observation first had foreign
// content.

// Constants of grading. A note of more than maxGraded bytes gets no grade, nor does one that would have to be compared
// with more than maxWalked bytes.
const (
	maxGraded   = 4 << 10   // bytes of a note
	maxWalked   = 512 << 10 // bytes of foreign content to compare a note with
	nearWords   = 4         // maximum number of content words between the two words of a pair
	negates     = 3         // number of content words after a negation that count as negated
	orderPoints = 70        // minimum command.Score of a text that counts as an order
)

// heard summarizes what came into a session.
type heard struct {
	spoken  bool   // the user or the operator has said something
	foreign bool   // foreign content came in
	reading uint64 // number of the agent's reading that first brought in foreign content
}

func heardKey(project, agent, session string) []byte {
	return stage.Key(keySaid, project, agent, session, "~")
}

func (f *Fold) heard(st *stage.State, project, agent, session string) (h heard, err error) {
	v, ok, err := st.Get(heardKey(project, agent, session))
	if err != nil || !ok || len(v) != 9 {
		return h, err
	}
	h.spoken, h.foreign = v[0]&1 != 0, v[0]&2 != 0
	h.reading = binary.BigEndian.Uint64(v[1:])
	return h, nil
}

func (h heard) bytes() []byte {
	v := make([]byte, 1, 9)
	if h.spoken {
		v[0] |= 1
	}
	if h.foreign {
		v[0] |= 2
	}
	return binary.BigEndian.AppendUint64(v, h.reading)
}

// noteHeard records in the session's summary whether an event had words of the user or operator (spoken), or foreign
// content (foreign). It must be called before the event itself is stored as a reading.
func (f *Fold) noteHeard(st *stage.State, project string, e *streams.EntryHead, spoken, foreign bool) error {
	if !spoken && !foreign {
		return nil
	}
	h, err := f.heard(st, project, e.Agent, e.Session)
	if err != nil || (h.spoken || !spoken) && (h.foreign || !foreign) {
		return err
	}
	if foreign && !h.foreign {
		h.foreign = true
		if h.reading, err = count(st, stage.Key(keyReadings, project, e.Agent, "")); err != nil {
			return err
		}
	}
	h.spoken = h.spoken || spoken
	return st.Set(heardKey(project, e.Agent, e.Session), h.bytes())
}

// count returns the counter of eight bytes under a key, or 0.
func count(st *stage.State, key []byte) (uint64, error) {
	v, ok, err := st.Get(key)
	if err != nil || !ok || len(v) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// hear records for an observation's session whether the user or the operator has said something, and whether foreign
// content came in. Results of a system of record are foreign here. The agent's own words are foreign only if the
// project has read foreign content before, because they may repeat it.
func (f *Fold) hear(st *stage.State, project string, e *streams.ObservationEntry) error {
	pasted := slices.ContainsFunc(e.Claims, func(c streams.ClaimEntry) bool {
		return c.Kind == beliefs.Content && c.Belief.Origin.External()
	})
	foreign := e.Origin.External() || pasted
	if e.Origin == beliefs.OriginAgent && !foreign {
		_, ok, err := st.Get(stage.Key(keyBrought, project, ""))
		if err != nil {
			return err
		}
		foreign = ok
	}
	spoken := !pasted && (e.Origin == beliefs.OriginUser || e.Origin == beliefs.OriginSystem)
	return f.noteHeard(st, project, &e.EntryHead, spoken, foreign)
}

// trusted reports whether showing a belief to an agent brings nothing foreign into the context.
func trusted(b *streams.BeliefRef) bool {
	return b.Origin == beliefs.OriginUser || b.Origin == beliefs.OriginSystem || b.Grade == beliefs.Own ||
		b.Grade == beliefs.Derived
}

// hearRecall records whether a recall brought foreign content into its session.
func (f *Fold) hearRecall(st *stage.State, project string, e *streams.RecallEntry) error {
	for _, items := range [][]streams.RecallItem{e.Admitted, e.ContextOnly, e.Contradictions} {
		for i := range items {
			if items[i].Unknown || !trusted(&items[i].BeliefRef) {
				return f.noteHeard(st, project, &e.EntryHead, false, true)
			}
		}
	}
	return nil
}

// gradeNote returns the grade of a memory write. shares is set if the note has a phrase or a carrier in common with
// external content.
func (f *Fold) gradeNote(st *stage.State, a streams.Address, m *streams.Memory, e *streams.MemoryEntry,
	shares bool) (beliefs.Grade, error) {
	if a.Origin != beliefs.OriginAgent || e.Belief.Origin != beliefs.OriginAgent || e.UserWord || shares || e.Unseen ||
		e.Restored ||
		e.Belief.Staged || m.Channel != "" || m.Home != nil || e.Session == "" || len(m.Content) > maxGraded ||
		e.Features.Hidden.Any() {
		return beliefs.NoGrade, nil
	}
	for _, id := range m.DerivedFrom {
		if ok, err := f.trustedParent(st, a, id); err != nil || !ok {
			return beliefs.NoGrade, err
		}
	}
	here, err := f.heard(st, a.Project, a.Agent, e.Session)
	if err != nil || !here.spoken {
		return beliefs.NoGrade, err // it is unknown what content the agent saw
	}
	anywhere, err := f.heard(st, a.Project, a.Agent, "")
	if err != nil {
		return beliefs.NoGrade, err
	}
	if anywhere.foreign && (!here.foreign || anywhere.reading < here.reading) {
		here.foreign, here.reading = true, anywhere.reading
	}
	said, err := f.saidTexts(st, a.Project, a.Agent, e.Session)
	if err != nil {
		return beliefs.NoGrade, err
	}
	if quotes(m.Content, said) {
		return beliefs.Derived, nil
	}
	if tools, err := offered(st, a.Project, a.Agent); err != nil || tools.Foreign > 0 {
		return beliefs.NoGrade, err
	}
	if !anywhere.foreign {
		// A catalogue that was replaced since may have been shown in the session. It counts as foreign content.
		if without, err := sessionlessSince(st, a.Project, &e.EntryHead); err != nil || without.Foreign > 0 {
			return beliefs.NoGrade, err
		}
	}
	n := readNote(m.Content, &e.Features, said)
	if n.grounded(said) {
		ok := !here.foreign || n.extracts(said)
		if !ok {
			ok, err = f.apart(st, a.Project, a.Agent, here, n)
		}
		if err != nil || ok {
			return grade(ok, beliefs.Derived), err
		}
	}
	return grade(!here.foreign && n.reasons(m.Content), beliefs.Own), nil
}

func grade(ok bool, g beliefs.Grade) beliefs.Grade {
	if ok {
		return g
	}
	return beliefs.NoGrade
}

// trustedParent reports whether a declared parent has no foreign content. A parent that the state no longer has counts
// as foreign.
func (f *Fold) trustedParent(st *stage.State, a streams.Address, id string) (bool, error) {
	all, err := others(st, a.Project, a.Agent, id)
	if err != nil || len(all) > 0 {
		return false, err
	}
	if r, err := f.belief(st, a.Project, id); err != nil || r != nil {
		return err == nil && trusted(&r.Ref), err
	}
	o, ok, err := f.originOf(st, a.Project, a.Agent, id)
	if err != nil || !ok || o != beliefs.OriginUser && o != beliefs.OriginSystem {
		return false, err
	}
	return f.plainReading(st, a.Project, a.Agent, id)
}

// plainReading reports whether an event that the agent read is stored and has no external content.
func (f *Fold) plainReading(st *stage.State, project, agent, id string) (bool, error) {
	if _, ok, err := st.Get(stage.Key(keyReading, project, agent, id)); err != nil || !ok {
		return false, err
	}
	_, foreign, err := st.Get(stage.Key(keyPhrases, project, agent, id))
	return err == nil && !foreign, err
}

// saidTexts returns the stored messages of the user in a session, oldest first.
func (f *Fold) saidTexts(st *stage.State, project, agent, session string) ([]string, error) {
	n, err := count(st, stage.Key(keySaid, project, agent, session, ""))
	if err != nil {
		return nil, err
	}
	var out []string
	for i := n - min(n, maxSaid); i < n; i++ {
		v, ok, err := st.Get(saidKey(project, agent, session, i))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, string(v))
		}
	}
	return out, nil
}

// agentNote is an agent's note, prepared for a comparison with the user's messages and with readings.
type agentNote struct {
	words    []text.Term // content words of the note, without reporting words
	used     map[text.Term]bool
	clauses  [][]text.Term
	carriers []string
	reaches  bool      // it names a host or an address
	names    bool      // it names a tool or a program that the user did not name
	limits   []string  // its limiting words
	said     []wordsOf // for each message of the user, how it uses the note's words
}

// wordsOf has the words of a note that another text also uses.
type wordsOf struct {
	plain map[text.Term]bool // used without a negation
	not   map[text.Term]bool // used with a negation
}

// Words that a comparison of a note with the user's messages treats specially.
var (
	// reporting are the words with which a note reports that the user said something.
	reporting = termSet(`user customer client person people guest human he she they want wants wanted prefer prefers
preferred preference like likes liked ask asks asked asking request requests requested said say says told tell mention
mentions mentioned state states stated note noted notes remember reminder need needs needed wish wishes would plan plans
planned intend intends goal task summary session today currently according please also myself mine`)
	negations = termSet(`no not never without dont doesnt didnt wont cant cannot shouldnt mustnt isnt arent wasnt nothing
none neither nor except avoid stop refuse instead unless`)
)

// limiting are words that limit a sentence, so that leaving them out changes its meaning.
var limiting = strings.Fields(
	`no not never without don't doesn't didn't won't can't cannot shouldn't mustn't isn't aren't wasn't nothing none
neither nor except avoid stop refuse instead unless if when until till only before after while once provided unless most
least`)

func termSet(words string) map[text.Term]bool {
	set := make(map[text.Term]bool)
	for _, t := range lexical.Words(words) {
		set[t] = true
	}
	return set
}

// locate finds the words in used that a text has, with and without negation.
func locate(s string, used map[text.Term]bool) wordsOf {
	w := wordsOf{plain: make(map[text.Term]bool), not: make(map[text.Term]bool)}
	last := -negates - 1
	for i, t := range text.Terms(s, len(s)) {
		if negations[t] {
			last = i
		}
		if !used[t] {
			continue
		}
		if i-last <= negates && i != last {
			w.not[t] = true
		} else {
			w.plain[t] = true
		}
	}
	return w
}

// sentencesOf splits a text after sentences and lines. It also splits numbers and addresses at their dots, but does so
// in the same way in every text.
func sentencesOf(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(".!?;\n", r) })
}

// limitsOf returns the limiting words of a text.
func limitsOf(s string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(text.Normalize(s), func(r rune) bool {
		return r != '\'' && !unicode.IsLetter(r)
	}) {
		if slices.Contains(limiting, w) {
			out = append(out, w)
		}
	}
	return out
}

func readNote(content string, ft *text.Features, said []string) *agentNote {
	n := &agentNote{used: make(map[text.Term]bool), carriers: distinctive(ft), limits: limitsOf(content),
		names: unnamed(content, said), reaches: slices.ContainsFunc(ft.Carriers, func(c text.Carrier) bool {
			return c.Kind.Traits().ReachesOut
		})}
	for _, c := range sentencesOf(content) {
		var clause []text.Term
		for _, t := range lexical.Words(c) {
			if !reporting[t] {
				clause = append(clause, t)
				n.used[t] = true
			}
		}
		if len(clause) > 0 {
			n.clauses = append(n.clauses, clause)
			n.words = append(n.words, clause...)
		}
	}
	for _, s := range said {
		n.said = append(n.said, locate(s, n.used))
	}
	return n
}

// grounded reports whether the user said all words and all carriers of the note. A word that the note negates must be
// negated by the user too. A word that the note does not negate must not be negated by the user.
func (n *agentNote) grounded(said []string) bool {
	if len(n.words) == 0 {
		return false
	}
	last := -negates - 1
	for i, t := range n.words {
		if negations[t] {
			last = i
		}
		negated := i-last <= negates && i != last
		if !slices.ContainsFunc(n.said, func(w wordsOf) bool {
			return negated && w.not[t] || !negated && w.plain[t]
		}) {
			return false
		}
	}
	return n.addressed(said)
}

// addressed reports whether the user named all carriers of the note.
func (n *agentNote) addressed(said []string) bool {
	if len(n.carriers) == 0 {
		return true
	}
	named := make(map[string]bool)
	for _, s := range said {
		ft := text.Analyze(s)
		for _, c := range distinctive(&ft) {
			named[c] = true
		}
	}
	return !slices.ContainsFunc(n.carriers, func(c string) bool { return !named[c] })
}

// reasons reports whether a note is a statement of the agent and not an order: it does not read like an order, says
// nothing of approvals and permissions, and names no address or host, and no tool that the user did not name.
func (n *agentNote) reasons(content string) bool {
	return !approval.Mentioned(text.Normalize(content)) && len(n.carriers) == 0 && !n.reaches && !n.names &&
		command.Of(content).Points < orderPoints
}

// unnamed reports whether a text has an identifier, such as send_money or SendMoney, that none of the other texts
// contains.
func unnamed(s string, others []string) bool {
	for _, w := range identifiers(s) {
		if !slices.ContainsFunc(others, func(o string) bool { return text.VerbatimSpan(w, o) }) {
			return true
		}
	}
	return false
}

func identifiers(s string) []string {
	var out []string
	for w := range wordsWith(s) {
		inner, lower := false, false
		for i, r := range w {
			if i > 0 && i < len(w)-1 && (r == '_' || lower && unicode.IsUpper(r)) {
				inner = true
			}
			lower = unicode.IsLower(r)
		}
		if inner {
			out = append(out, w)
		}
	}
	return out
}

// wordsWith yields the words of a text. An underscore is a part of a word.
func wordsWith(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := -1
		for i, r := range s + " " {
			in := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
			switch {
			case in && start < 0:
				start = i
			case !in && start >= 0:
				if !yield(s[start:i]) {
					return
				}
				start = -1
			}
		}
	}
}

// extracts reports whether each clause of the note is an extract of one sentence of the user. An extract has words of
// the sentence in their order. Between two of them it leaves out at most one word, and it leaves out no limiting word
// of the sentence.
func (n *agentNote) extracts(said []string) bool {
	type sentence struct {
		words  []text.Term
		limits []string
	}
	var all []sentence
	for _, s := range said {
		for _, x := range sentencesOf(s) {
			all = append(all, sentence{lexical.Words(x), limitsOf(x)})
		}
	}
	return !slices.ContainsFunc(n.clauses, func(c []text.Term) bool {
		return !slices.ContainsFunc(all, func(x sentence) bool {
			limited := slices.ContainsFunc(x.limits, func(w string) bool { return !slices.Contains(n.limits, w) })
			return !limited && len(c) > 1 && extracted(c, x.words)
		})
	})
}

// extracted reports whether a sentence has the words in `words`, in the same order, with at most one other word between
// two of them. Reporting words are ignored.
func extracted(words, sentence []text.Term) bool {
	sentence = slices.DeleteFunc(slices.Clone(sentence), func(t text.Term) bool { return reporting[t] })
	for i := range sentence {
		at, k := i, 0
		for k < len(words) && at < len(sentence) {
			switch {
			case sentence[at] == words[k]:
				at, k = at+1, k+1
				continue
			case k > 0 && at+1 < len(sentence) && sentence[at+1] == words[k]:
				at, k = at+2, k+1
				continue
			}
			break
		}
		if k == len(words) {
			return true
		}
	}
	return false
}

// apart reports whether the foreign content in a note's session contains none of the note's words.
func (f *Fold) apart(st *stage.State, project, agent string, h heard, n *agentNote) (bool, error) {
	end, err := count(st, stage.Key(keyReadings, project, agent, ""))
	if err != nil || end-h.reading > keptReadings {
		return false, err
	}
	left := maxWalked
	for i := h.reading; i < end; i++ {
		id, ok, err := st.Get(readingSlot(project, agent, i))
		if err != nil || !ok {
			return false, err
		}
		rd, err := f.reading(st, project, agent, string(id))
		if err != nil || rd == nil || rd.Cut {
			return false, err
		}
		o, _, err := f.originOf(st, project, agent, string(id))
		if err != nil {
			return false, err
		}
		if o == beliefs.OriginSystem || o == beliefs.OriginUser {
			if plain, err := f.plainReading(st, project, agent, string(id)); err != nil || plain {
				if err != nil {
					return false, err
				}
				continue
			}
		}
		for _, t := range rd.Texts {
			if left -= len(t); left < 0 {
				return false, nil
			}
			if w := locate(t, n.used); len(w.plain)+len(w.not) > 0 {
				return false, nil
			}
		}
	}
	return true, nil
}
