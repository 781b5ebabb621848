package detection

import (
	"cmp"
	"maps"
	"slices"
)

// ModelRule is the rule that uses the text model, and ModelPoints its threshold.
const (
	ModelRule   = "read-command-score"
	ModelPoints = 70
)

// LeftOutRow has the rates of text rules on one data set, with a text model fitted to the others.
type LeftOutRow struct {
	Dataset string `json:"dataset"`
	Attack  bool   `json:"attack"`
	Rules   Rate   `json:"rules"` // all rules except the model's
	Model   Rate   `json:"model"` // the model alone
	Both    Rate   `json:"both"`
}

// LeftOut has the rates of text rules with each data set left out of the text model in turn. It covers
// attacks with a strong signal.
type LeftOut struct {
	Rows []LeftOutRow `json:"sets"`
	// Rules, Model and Both are means over data sets with attacks.
	Rules Macro `json:"rules"`
	Model Macro `json:"model"`
	Both  Macro `json:"both"`
	// Benign covers all harmless lines. BenignRead covers only those that neither the user nor the operator wrote.
	Benign     LeftOutRow `json:"benign"`
	BenignRead LeftOutRow `json:"benign_read"`
}

type leftOutTally struct{ rules, model, both tally }

func (t *leftOutTally) add(c *Case, rules, model bool) {
	t.rules.add(c.Cluster, rules)
	t.model.add(c.Cluster, model)
	t.both.add(c.Cluster, rules || model)
}

func (t *leftOutTally) row(dataset string, attack bool) LeftOutRow {
	return LeftOutRow{dataset, attack, t.rules.rate(), t.model.rate(), t.both.rate()}
}

// LeaveOut adds the figures of LeftOut to a report. score must return the score of a text by a model that was fitted
// without the texts of dataset.
func (r *Report) LeaveOut(cases []*Case, score func(dataset, text string) (int, error)) error {
	type key struct {
		dataset string
		attack  bool
	}
	sets := map[key]*leftOutTally{}
	var benign, benignRead leftOutTally
	for _, c := range cases {
		if c.Session || c.Attack && c.Signal != Strong {
			continue
		}
		model := false
		if c.read {
			points, err := score(c.Dataset, c.text)
			if err != nil {
				return err
			}
			model = points >= ModelPoints
		}
		rules := slices.ContainsFunc(c.flagged, func(f finding) bool { return f.rule != ModelRule })
		at(sets, key{c.Dataset, c.Attack}).add(c, rules, model)
		if c.Attack {
			continue
		}
		benign.add(c, rules, model)
		if !c.Owner {
			benignRead.add(c, rules, model)
		}
	}
	out := &LeftOut{Benign: benign.row("all", false), BenignRead: benignRead.row("all", false)}
	for _, k := range slices.SortedFunc(maps.Keys(sets), func(a, b key) int {
		return cmp.Or(cmp.Compare(order(b.attack), order(a.attack)), cmp.Compare(a.dataset, b.dataset))
	}) {
		row := sets[k].row(k.dataset, k.attack)
		out.Rows = append(out.Rows, row)
		if k.attack {
			out.Rules.add(row.Rules)
			out.Model.add(row.Model)
			out.Both.add(row.Both)
		}
	}
	r.LeftOut = out
	return nil
}

// spread computes the distribution of a rule's hits over data sets. A hit is a flagged attack line or a
// held goal.
func (row *RuleRow) spread(cases []*Case) {
	lines, goals := map[string]*tally{}, map[string]*tally{}
	for _, c := range cases {
		is := func(f finding) bool { return f.rule == row.Rule }
		if c.Attack && !c.Session {
			at(lines, c.Dataset).add(c.Cluster, slices.ContainsFunc(c.flagged, is))
		}
		for _, a := range c.Actions {
			if a.Goal {
				at(goals, c.Dataset).add(c.Cluster, slices.ContainsFunc(a.held, is))
			}
		}
	}
	hits := map[string]int{}
	total := 0
	for _, m := range []map[string]*tally{lines, goals} {
		for set, t := range m {
			hits[set] += t.rate().Hits
			total += t.rate().Hits
		}
	}
	for _, set := range slices.Sorted(maps.Keys(hits)) {
		if hits[set] > hits[row.Most] || row.Most == "" && hits[set] > 0 {
			row.Most = set
		}
	}
	if total == 0 {
		return
	}
	row.MostShare = float64(hits[row.Most]) / float64(total)
	of := goals
	if row.Attacks > 0 {
		of = lines
	}
	for _, set := range slices.Sorted(maps.Keys(of)) {
		row.Mean.add(of[set].rate())
		if set != row.Most {
			row.Without.add(of[set].rate())
		}
	}
}

// Narrow reports whether more than half of the rule's hits are in one data set.
func (row *RuleRow) Narrow() bool { return row.MostShare > 0.5 }
