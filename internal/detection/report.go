package detection

import (
	"cmp"
	"maps"
	"slices"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
)

// Report has the results of the measurement.
type Report struct {
	Lines    int `json:"lines"`
	Sessions int `json:"sessions"`
	// Text has the results by the text alone, by data set, label, class and signal. TextSums has the
	// sums over classes.
	Text     []TextRow `json:"text"`
	TextSums []TextRow `json:"text_sums"`
	// TextMacro has the macro averages of the attack rates, by signal: each data set counts the same.
	TextMacro map[string]*Macro `json:"text_macro"`
	// Benign covers all harmless lines. BenignRead covers only the harmless lines that neither the user nor the
	// operator wrote, because these two may give instructions.
	Benign     Rate `json:"benign"`
	BenignRead Rate `json:"benign_read"`

	Actions     []ActionRow `json:"actions"`
	ActionSums  []ActionRow `json:"action_sums"` // lines and sessions together
	ActionMacro struct {
		Goals        Macro `json:"goals"`
		GoalsEmpty   Macro `json:"goals_empty"`
		GoalReads    Macro `json:"goal_reads"`
		Changes      Macro `json:"changes"`
		ChangesEmpty Macro `json:"changes_empty"`
		Reads        Macro `json:"reads"`
	} `json:"action_macro"`

	LeftOut *LeftOut `json:"left_out,omitzero"`

	Rules    []RuleRow `json:"rules"`
	Health   Health    `json:"health"`
	Examples []Example `json:"examples,omitzero"`
}

// TextRow counts the lines that rules flagged by the text alone.
type TextRow struct {
	Dataset string `json:"dataset"`
	Attack  bool   `json:"attack"`
	Class   string `json:"class,omitzero"`
	Signal  string `json:"signal"`
	Rate
}

// ActionRow counts the actions that sentinels held or denied. Actions without arguments are counted
// separately: only the tool's name can connect them to content that was read.
type ActionRow struct {
	Dataset      string `json:"dataset"`
	From         string `json:"from,omitzero"` // lines or sessions
	Goals        Rate   `json:"goals"`         // state-changing actions of attackers
	GoalsEmpty   Rate   `json:"goals_empty"`
	GoalReads    Rate   `json:"goal_reads"` // read-only actions of attackers, which rules do not hold
	Changes      Rate   `json:"changes"`    // state-changing benign actions
	ChangesEmpty Rate   `json:"changes_empty"`
	Reads        Rate   `json:"reads"` // read-only benign actions
}

// RuleRow has the contribution of one rule.
type RuleRow struct {
	Rule    string `json:"rule"`
	Attacks int    `json:"attack_lines"`
	Benign  int    `json:"benign_lines"`
	Goals   int    `json:"goals"`
	Others  int    `json:"benign_actions"`
	// Most is the data set with most of the rule's hits, and MostShare its share of them.
	Most      string  `json:"most_from,omitzero"`
	MostShare float64 `json:"most_share"`
	// Mean is the mean over data sets of the share of attack lines that the rule flags. For a rule that flags no lines,
	// it is the mean share of the attackers' actions that the rule holds. Without is the same mean without the data set
	// Most.
	Mean    Macro `json:"mean"`
	Without Macro `json:"mean_without_most"`
}

// Example is a miss or a false alarm.
type Example struct {
	Dataset string   `json:"dataset"`
	Kind    string   `json:"kind"`
	ID      string   `json:"id"`
	Class   string   `json:"class"`
	Signal  string   `json:"signal"`
	Text    string   `json:"text"`         // clipped and inert
	Why     []string `json:"why,omitzero"` // messages of rules, clipped and inert

	cluster string
}

// The kinds of examples.
const (
	MissedText   = "missed text"
	FalseText    = "false alarm"
	MissedAction = "missed action"
	FalseAction  = "held though benign"
)

// exampleLen is the maximum number of characters of an example.
const exampleLen = 120

type textKey struct {
	dataset string
	attack  bool
	class   string
	signal  string
}

func (k textKey) compare(l textKey) int {
	return cmp.Or(cmp.Compare(k.dataset, l.dataset), cmp.Compare(order(l.attack), order(k.attack)),
		cmp.Compare(k.class, l.class), cmp.Compare(l.signal, k.signal))
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

type actionKey struct{ dataset, from string }

func (k actionKey) compare(l actionKey) int {
	return cmp.Or(cmp.Compare(k.dataset, l.dataset), cmp.Compare(k.from, l.from))
}

type actionTally struct{ goals, goalsEmpty, goalReads, changes, changesEmpty, reads tally }

// of returns the tally that counts an action.
func (t *actionTally) of(a *Action) *tally {
	switch {
	case a.Goal && a.level < beliefs.L3:
		return &t.goalReads
	case a.Goal && a.Empty:
		return &t.goalsEmpty
	case a.Goal:
		return &t.goals
	case a.level < beliefs.L3:
		return &t.reads
	case a.Empty:
		return &t.changesEmpty
	}
	return &t.changes
}

// Report summarizes the results, with at most examples misses and false alarms per kind and data set.
func (j *Joiner) Report(cases []*Case, examples int) *Report {
	r := &Report{Health: j.health, TextMacro: map[string]*Macro{Strong: {}, Weak: {}}}
	texts, textSums := map[textKey]*tally{}, map[textKey]*tally{}
	acts, actSums := map[actionKey]*actionTally{}, map[actionKey]*actionTally{}
	rules := map[string]*RuleRow{}
	unnamed := map[string]bool{}
	var benign, benignRead tally
	var found []Example

	for _, c := range cases {
		if c.Session {
			r.Sessions++
		} else {
			r.Lines++
			if !c.judged {
				r.Health.Unjudged++
			}
			hit := len(c.flagged) > 0
			at(texts, textKey{c.Dataset, c.Attack, c.Class, c.Signal}).add(c.Cluster, hit)
			at(textSums, textKey{c.Dataset, c.Attack, "", c.Signal}).add(c.Cluster, hit)
			if !c.Attack {
				benign.add(c.Cluster, hit)
				if !c.Owner {
					benignRead.add(c.Cluster, hit)
				}
			}
			for _, f := range c.flagged {
				if row := ruleRow(rules, f.rule); c.Attack {
					row.Attacks++
				} else {
					row.Benign++
				}
			}
			if c.Attack && !hit {
				found = append(found, c.example(MissedText, c.Cluster, nil))
			} else if !c.Attack && hit {
				found = append(found, c.example(FalseText, c.Cluster, c.flagged))
			}
		}
		from := "lines"
		if c.Session {
			from = "sessions"
		}
		for _, a := range c.Actions {
			if !a.decided {
				r.Health.Open++
			}
			if a.entry == "" || a.entry == policy.Otherwise {
				unnamed[text.InertLine(a.Text, exampleLen)] = true
			}
			hit := len(a.held) > 0
			at(acts, actionKey{c.Dataset, from}).of(a).add(c.Cluster, hit)
			at(actSums, actionKey{c.Dataset, ""}).of(a).add(c.Cluster, hit)
			for _, f := range a.held {
				if row := ruleRow(rules, f.rule); a.Goal {
					row.Goals++
				} else {
					row.Others++
				}
			}
			if a.Goal && !hit {
				found = append(found, c.example(MissedAction, a.Text, nil))
			} else if !a.Goal && hit {
				found = append(found, c.example(FalseAction, a.Text, a.held))
			}
		}
	}

	r.Text, r.TextSums = textRows(texts), textRows(textSums)
	for _, row := range r.TextSums {
		if m := r.TextMacro[row.Signal]; m != nil && row.Attack {
			m.add(row.Rate)
		}
	}
	r.Benign, r.BenignRead = benign.rate(), benignRead.rate()
	r.Actions, r.ActionSums = actionRows(acts), actionRows(actSums)
	for _, row := range r.ActionSums {
		m := &r.ActionMacro
		m.Goals.add(row.Goals)
		m.GoalsEmpty.add(row.GoalsEmpty)
		m.GoalReads.add(row.GoalReads)
		m.Changes.add(row.Changes)
		m.ChangesEmpty.add(row.ChangesEmpty)
		m.Reads.add(row.Reads)
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rules[name].spread(cases)
		r.Rules = append(r.Rules, *rules[name])
	}
	r.Health.Unnamed = slices.Sorted(maps.Keys(unnamed))
	r.Examples = choose(found, examples)
	return r
}

// at returns the value of a key, and creates it if necessary.
func at[K comparable, T any](m map[K]*T, k K) *T {
	if m[k] == nil {
		m[k] = new(T)
	}
	return m[k]
}

func ruleRow(m map[string]*RuleRow, name string) *RuleRow {
	row := at(m, name)
	row.Rule = name
	return row
}

func textRows(m map[textKey]*tally) []TextRow {
	var out []TextRow
	for _, k := range slices.SortedFunc(maps.Keys(m), textKey.compare) {
		out = append(out, TextRow{k.dataset, k.attack, k.class, k.signal, m[k].rate()})
	}
	return out
}

func actionRows(m map[actionKey]*actionTally) []ActionRow {
	var out []ActionRow
	for _, k := range slices.SortedFunc(maps.Keys(m), actionKey.compare) {
		t := m[k]
		out = append(out, ActionRow{k.dataset, k.from, t.goals.rate(), t.goalsEmpty.rate(), t.goalReads.rate(),
			t.changes.rate(), t.changesEmpty.rate(), t.reads.rate()})
	}
	return out
}

func (c *Case) example(kind, shown string, found []finding) Example {
	e := Example{Dataset: c.Dataset, Kind: kind, ID: c.Script.Name, Class: c.Class, Signal: c.Signal,
		Text: text.InertLine(shown, exampleLen), cluster: c.Cluster}
	for _, f := range found {
		e.Why = append(e.Why, text.InertLine(f.rule+": "+f.why, exampleLen))
	}
	return e
}

// signals are in the order in which examples are selected.
var signals = []string{Strong, Weak, Lexical, Null}

// choose selects up to n examples per kind and data set. It selects at most one per cluster, strong signals first, and
// one example of each class before a second of any class.
func choose(all []Example, n int) []Example {
	type key struct{ dataset, kind, class, signal, cluster string }
	seen, count := map[key]bool{}, map[key]int{}
	type ranked struct {
		Example
		rank int
	}
	var rs []ranked
	for _, e := range all {
		k := key{e.Dataset, e.Kind, e.Class, e.Signal, ""}
		one := k
		one.cluster = e.cluster
		if seen[one] {
			continue
		}
		seen[one] = true
		rs = append(rs, ranked{e, count[k]})
		count[k]++
	}
	slices.SortStableFunc(rs, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(slices.Index(signals, a.Signal), slices.Index(signals, b.Signal)), cmp.Compare(a.rank, b.rank))
	})
	var out []Example
	taken := map[key]int{}
	for _, e := range rs {
		k := key{dataset: e.Dataset, kind: e.Kind}
		if taken[k]++; taken[k] <= n {
			out = append(out, e.Example)
		}
	}
	return out
}
