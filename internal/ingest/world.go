package ingest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
)

// WorldValue is a value of one subject and key, current or withheld. The world model is computed from the beliefs. The
// values that the default context policy admits for decisions are current. The others are listed with the reason why
// they are not.
type WorldValue struct {
	Subject string `json:"subject,omitzero"` // empty for a memory with a key and without triples
	Key     string `json:"key"`              // the predicate, or the memory's key
	Value   string `json:"value"`
	Current bool   `json:"current"`
	// Withheld is the reason why the value is not current: a code of the context policy, or "older" if a later value
	// replaced it.
	Withheld  string    `json:"withheld,omitzero"`
	Belief    string    `json:"belief"`
	Origin    string    `json:"origin"`
	Namespace string    `json:"namespace,omitzero"`
	At        time.Time `json:"at"`
}

// World returns the values of memories at a ledger time. They are ordered by subject and key. For each of these, the
// current values come first, and then the withheld ones, the latest first.
func World(items []Belief, now time.Time) []WorldValue {
	pol := beliefs.DefaultContext("decision")
	pol.ContextOnly = false
	out := []WorldValue{}
	for i := range items {
		b := &items[i]
		if !b.Memory || b.Key == "" && len(b.Triples) == 0 {
			continue
		}
		r := pol.Judge(now, beliefs.Asker{}, []beliefs.Candidate{{Axes: b.Axes, Sensitivity: b.Sensitivity,
			Origin: b.Origin, At: b.At, ValidFrom: b.From, ValidTo: b.To}})[0]
		v := WorldValue{Key: b.Key, Value: b.Content, Current: r.Channel == beliefs.Admitted, Withheld: r.Reason,
			Belief: b.ID, Origin: string(b.Origin), Namespace: b.Namespace.String(), At: b.At}
		if len(b.Triples) == 0 {
			out = append(out, v)
			continue
		}
		for _, t := range b.Triples {
			v.Subject, v.Key, v.Value = t.Subject, t.Predicate, t.Object
			out = append(out, v)
		}
	}
	same := func(a, b *WorldValue) int {
		return cmp.Or(strings.Compare(a.Subject, b.Subject), strings.Compare(a.Key, b.Key),
			strings.Compare(a.Namespace, b.Namespace))
	}
	slices.SortStableFunc(out, func(a, b WorldValue) int {
		if c := same(&a, &b); c != 0 {
			return c
		}
		if a.Current != b.Current {
			if a.Current {
				return -1
			}
			return 1
		}
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Belief, b.Belief))
	})
	for i := 1; i < len(out); i++ {
		if a, b := &out[i-1], &out[i]; b.Current && same(a, b) == 0 && (a.Current || a.Withheld == "older") &&
			a.Value != b.Value {
			b.Current, b.Withheld = false, "older"
		}
	}
	return out
}
