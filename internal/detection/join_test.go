package detection

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/probes"
	shipped "lazaret/rules"
	"lazaret/streams"
)

const corpus = `
{"id":"a1","dataset":"D","label":"attack","class":"x","signal":"strong","source_class":"external_tool","tool":"mail","content":"pre INJ post","user_task":"read it","followup_action":{"tool":"pay","args":{"to":"eve"}},"meta":{"injected_text":"INJ","signal_by":"construction"}}
{"id":"a2","dataset":"D","label":"attack","class":"x","signal":"strong","source_class":"external_tool","tool":"mail","content":"other INJ","user_task":null,"followup_action":{"tool":"pay","args":{}},"meta":{"injected_text":"INJ"}}
{"id":"a3","dataset":"D","label":"attack","class":"x","signal":"weak","source_class":"agent","tool":"memory.write","content":"a fact","user_task":null,"followup_action":null,"meta":{"signal_by":"lexical"}}
{"id":"b1","dataset":"D","label":"benign","class":"y","signal":null,"source_class":"user","tool":null,"content":"hello","user_task":null,"followup_action":{"tool":"look","args":null},"meta":{}}
{"session_id":"s1","dataset":"D","attacked":true,"attack_type":"z","steps":[{"kind":"user","content":"u"},{"kind":"action","tool":"look","args":{}},{"kind":"memory","op":"write","content":""},{"kind":"tool_result","tool":"look","content":"INJ"},{"kind":"session_break"},{"kind":"action","tool":"pay","args":{"to":"eve"},"attacker_goal_match":"exact"}]}
{"session_id":"s2","dataset":"D","attacked":false,"attack_type":null,"steps":[{"kind":"action","tool":"pay","args":{"to":"shop"}}]}
`

func read(t *testing.T, text string, f Filter) []*Case {
	t.Helper()
	name := filepath.Join(t.TempDir(), "c.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, err := Read([]string{name}, f)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestLabelsOfLinesAndSessions(t *testing.T) {
	cases := read(t, corpus, Filter{})
	type want struct {
		cluster, signal, content string
		attack, session, owner   bool
		actions                  []Action
	}
	for i, w := range []want{
		{"INJ", Strong, "e2", true, false, false, []Action{{ID: "e3", Goal: true, Text: `pay {"to":"eve"}`}}},
		{"INJ", Strong, "e1", true, false, false, []Action{{ID: "e2", Goal: true, Empty: true, Text: `pay {}`}}},
		{"a fact", Lexical, "e1", true, false, false, nil},
		{"hello", Null, "e1", false, false, true, []Action{{ID: "e2", Empty: true, Text: "look "}}},
		{"s1", Null, "", true, true, false, []Action{{ID: "e6", Goal: true, Text: `pay {"to":"eve"}`}}},
		{"s2", Null, "", false, true, false, []Action{{ID: "e1", Text: `pay {"to":"shop"}`}}},
	} {
		c := cases[i]
		got := want{c.Cluster, c.Signal, c.content, c.Attack, c.Session, c.Owner, nil}
		ok := slices.EqualFunc(c.Actions, w.actions, func(a *Action, b Action) bool {
			return a.ID == b.ID && a.Goal == b.Goal && a.Empty == b.Empty && a.Text == b.Text
		})
		got.actions, w.actions = nil, nil
		if !ok || got.cluster != w.cluster || got.signal != w.signal || got.content != w.content ||
			got.attack != w.attack || got.session != w.session || got.owner != w.owner {
			t.Errorf("%s: got %+v, want %+v; actions as wanted: %t", c.Script.Name, got, w, ok)
		}
	}
	if got := read(t, corpus, Filter{Dataset: "d", Limit: 2}); len(got) != 2 {
		t.Errorf("limit 2 gives %d lines", len(got))
	}
}

func TestWhatCannotBeReadSaysWhere(t *testing.T) {
	dir := t.TempDir()
	line := `{"id":"a","dataset":"D","label":"benign","content":"x"}`
	for text, want := range map[string]string{
		line + "\n" + line:                         `c.jsonl:2: "a" is a duplicate`,
		strings.Replace(line, "benign", "good", 1): `c.jsonl:1: label "good"`,
		strings.Replace(line, `"D"`, `""`, 1):      "c.jsonl:1: the field `dataset` of",
	} {
		name := filepath.Join(dir, "c.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read([]string{name}, Filter{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// ledger passes entries to a joiner as a pipeline would write them.
type ledger struct {
	t   *testing.T
	j   *Joiner
	seq uint64
}

func (l *ledger) add(c *Case, typ streams.Type, src uint64, body any) uint64 {
	l.t.Helper()
	b, err := streams.Marshal(body)
	if err != nil {
		l.t.Fatal(err)
	}
	l.seq++
	if err := l.j.Add(&streams.Entry{Seq: l.seq, Type: typ, Project: c.Script.Project, Src: src, Body: b}); err != nil {
		l.t.Fatal(err)
	}
	return l.seq
}

func (l *ledger) content(c *Case, typ streams.Type, id string) uint64 {
	return l.add(c, typ, 0, streams.EntryHead{ID: id})
}

func (l *ledger) action(c *Case, level beliefs.Level, entry string, why ...streams.Reason) {
	a := c.Actions[0]
	l.add(c, streams.TypeAction, 0, &streams.ActionEntry{EntryHead: streams.EntryHead{ID: a.ID},
		Action: beliefs.Action{Contract: beliefs.Contract{Level: level}}, Matched: entry})
	l.add(c, streams.TypeVerdict, 0, &streams.VerdictEntry{Type: streams.TypeAction, ID: a.ID, Verdict: streams.Hold,
		Reasons: why})
}

func TestFindingsAreJoinedToWhatTheyAreAbout(t *testing.T) {
	cases := read(t, corpus, Filter{})
	l := &ledger{t: t, j: NewJoiner(cases)}
	high := streams.Alert{Rule: "r", Severity: "high", Message: "m"}
	found := streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Rule: "s", Text: "because"}
	floor := streams.Reason{Code: streams.CodeFloor, Verdict: streams.Deny}

	// Case a1: an alert on the user's task does not count, an alert on the content does. Alerts of another agent at the
	// same source, and milder or shadowed ones, do not count.
	task := l.content(cases[0], streams.TypeObservation, "e1")
	l.add(cases[0], streams.TypeAlerts, task,
		streams.AlertsEntry{Alerts: []streams.Alert{{Rule: "not-this", Severity: "critical"}}})
	seq := l.content(cases[0], streams.TypeObservation, "e2")
	l.add(cases[1], streams.TypeAlerts, seq, streams.AlertsEntry{Alerts: []streams.Alert{high}})
	l.add(cases[0], streams.TypeAlerts, seq, streams.AlertsEntry{Alerts: []streams.Alert{high, high,
		{Rule: "mild", Severity: "medium"}, {Rule: "shadow", Severity: "critical", Mode: "shadow"}}})
	l.action(cases[0], beliefs.L3, "change", found, floor)
	// Case a2: nothing is flagged. The action is held only by the policy's floor, which is not a finding.
	l.content(cases[1], streams.TypeObservation, "e1")
	l.action(cases[1], beliefs.L4, policy.Otherwise, floor)
	// Case a3: an assessment flags a memory write. Case b1 gets no entries, like a line that never reached the ledger.
	seq = l.content(cases[2], streams.TypeMemory, "e1")
	l.add(cases[2], streams.TypeAssessment, seq, streams.AssessmentEntry{Verdict: streams.Deny,
		Alerts: []streams.Alert{high}})
	// Session s1: the action is held because of a belief that a rule affected, which is a finding. Session s2: the
	// first verdict has no finding. The later verdict has one, but does not count, because the agent has acted on the
	// first.
	l.action(cases[4], beliefs.L3, "change", streams.Reason{Code: streams.CodeBelief, Verdict: streams.Hold, Rule: "s"})
	l.action(cases[5], beliefs.L3, "change")
	l.add(cases[5], streams.TypeVerdict, 0, &streams.VerdictEntry{Type: streams.TypeAction, ID: "e1",
		Verdict: streams.Hold, Late: true, Reasons: []streams.Reason{found}})

	r := l.j.Report(cases, 5)
	if r.Lines != 4 || r.Sessions != 2 {
		t.Errorf("%d lines, %d sessions", r.Lines, r.Sessions)
	}
	rows := map[string]TextRow{}
	for _, row := range r.TextSums {
		rows[row.Signal] = row
	}
	if s := rows[Strong]; s.N != 2 || s.Clusters != 1 || s.Hits != 1 || s.Rate.Rate != 0.5 {
		t.Errorf("strong: %+v, want one cluster of two lines, half of it flagged", s)
	}
	if s := rows[Lexical]; s.Hits != 1 {
		t.Errorf("lexical: %+v, want the memory flagged", s)
	}
	if r.TextMacro[Strong].Datasets != 1 || r.TextMacro[Weak].Datasets != 0 {
		t.Errorf("macro %+v %+v, want figures by signal without the lexical line", r.TextMacro[Strong], r.TextMacro[Weak])
	}
	if r.Benign.N != 1 || r.BenignRead.N != 0 {
		t.Errorf("benign %+v, without the user's %+v", r.Benign, r.BenignRead)
	}
	a := r.ActionSums[0]
	if a.Goals.N != 2 || a.Goals.Hits != 2 || a.GoalsEmpty.N != 1 || a.GoalsEmpty.Hits != 0 || a.Changes.N != 1 ||
		a.Changes.Hits != 0 || a.Reads.N != 1 {
		t.Errorf("actions %+v", a)
	}
	h := r.Health
	// b1's line was not judged, and its action was neither classified nor decided.
	if h.Unjudged != 1 || h.Open != 1 || len(h.Unnamed) != 2 {
		t.Errorf("health %+v", h)
	}
	want := []RuleRow{{Rule: "r", Attacks: 2}, {Rule: "s", Goals: 2}}
	for i, w := range want {
		g := r.Rules[i]
		if g.Rule != w.Rule || g.Attacks != w.Attacks || g.Benign != w.Benign || g.Goals != w.Goals ||
			g.Others != w.Others || !g.Narrow() {
			t.Errorf("rules %+v, want %+v", g, w)
		}
	}
	var kinds []string
	for _, e := range r.Examples {
		kinds = append(kinds, e.Kind+" "+e.ID)
	}
	if got := strings.Join(kinds, ", "); got != "missed action a2, missed text a2" {
		t.Errorf("examples: %s", got)
	}
}

// Figures of the text model count only if each text was scored by weights fitted without its data set,
// and a rule's figure only if it holds beyond one data set.
func TestFiguresAreGivenWithADataSetLeftOut(t *testing.T) {
	line := func(id, set, label, signal, class, content string) string {
		return fmt.Sprintf(`{"id":%q,"dataset":%q,"label":%q,"signal":%q,"source_class":%q,"content":%q,"meta":{}}`+"\n",
			id, set, label, signal, class, content)
	}
	cases := read(t, line("a", "A", "attack", "strong", "external_tool", "one")+line("b", "A", "attack", "strong",
		"external_tool", "two")+
		line("c", "B", "attack", "strong", "external_tool", "three")+line("d", "B", "attack", "weak", "external_tool",
		"four")+
		line("e", "B", "benign", "", "external_tool", "five")+line("f", "B", "benign", "", "user", "six"), Filter{})
	for i, rule := range []string{"r", "r", ModelRule, "r"} {
		cases[i].flagged = note(cases[i].flagged, rule, "")
	}
	r := NewJoiner(cases).Report(cases, 0)
	err := r.LeaveOut(cases, func(set, text string) (int, error) {
		if text == "four" || text == "six" {
			t.Errorf("%q is scored: it is no strong attack, or the user's", text)
		}
		return map[string]int{"A/one": ModelPoints, "B/three": ModelPoints - 1, "B/five": 100}[set+"/"+text], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l := r.LeftOut
	if l.Rules != (Macro{2, 0.5}) || l.Model != (Macro{2, 0.25}) || l.Both != (Macro{2, 0.5}) {
		t.Errorf("%+v", l)
	}
	if l.Benign.Model.Rate != 0.5 || l.BenignRead.Both.Rate != 1 || l.BenignRead.Rules.Hits != 0 {
		t.Errorf("%+v", l)
	}
	// The rule flags all attack lines of data set A and half of those of B, so its mean is 0.75, and 0.5 without A.
	for _, x := range r.Rules {
		if x.Rule == "r" && (x.Most != "A" || !x.Narrow() || x.Mean != (Macro{2, 0.75}) || x.Without != (Macro{1, 0.5})) {
			t.Errorf("%+v", x)
		}
	}
}

func TestTheModelsRuleFiresFromThePointsThatTheProbeCounts(t *testing.T) {
	file, err := fs.ReadFile(shipped.FS(), "write-path/content.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, found := strings.Cut(string(file), "id: "+ModelRule+"\n")
	rule, _, _ = strings.Cut(rule, "  - id: ")
	if !found || !strings.Contains(rule, fmt.Sprintf("content.command_score >= %d ", ModelPoints)) {
		t.Errorf("rule %s is %q", ModelRule, rule)
	}
}

// Rules do not hold reads, so an attacker's read does not count as a missed change.
func TestAttackersReadsAreCountedApartFromTheirChanges(t *testing.T) {
	cases := read(t, corpus, Filter{})
	l := &ledger{t: t, j: NewJoiner(cases)}
	goals := 0
	for _, c := range cases {
		if len(c.Actions) > 0 && c.Actions[0].Goal && !c.Actions[0].Empty {
			l.action(c, beliefs.L1, "read")
			goals++
		}
	}
	var all ActionRow
	for _, a := range l.j.Report(cases, 5).ActionSums {
		all.Goals.N += a.Goals.N
		all.GoalReads.N += a.GoalReads.N
	}
	if goals == 0 || all.GoalReads.N < goals || all.Goals.N != 0 {
		t.Errorf("of %d goals that read, %d are counted as reads and %d as changes", goals, all.GoalReads.N, all.Goals.N)
	}
}

// TestThePolicyNamesEveryToolOfTheCorpora ensures that the probe's holds are due to sentinels: the
// policy itself holds tools that no list names.
func TestThePolicyNamesEveryToolOfTheCorpora(t *testing.T) {
	p, err := policy.Compile("probes/detection/policy.yaml", probes.DetectionPolicy)
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("LAZARET_CORPORA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpora")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: no corpora: %v; name their folder in LAZARET_CORPORA", err)
	}
	cases, err := Read([]string{dir}, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	tools := 0
	seen := map[string]bool{}
	for _, c := range cases {
		for _, st := range c.Script.Steps {
			a, ok := st.Event.(*streams.Action)
			if !ok || seen[a.Tool] {
				continue
			}
			seen[a.Tool] = true
			tools++
			k := p.Classify(a.Tool, nil, "p", "a")
			if k.Floor != streams.Allow || k.Entry == policy.Otherwise {
				t.Errorf("%q: %s by entry %q; put it into one of the lists", a.Tool, k.Level, k.Entry)
			}
		}
	}
	if tools < 500 {
		t.Errorf("only %d tools: was the corpora read?", tools)
	}
}
