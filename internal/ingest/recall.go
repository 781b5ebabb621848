package ingest

import (
	"bytes"
	"sort"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits of a recall.
const (
	defaultLimit = 10
	// scanLimit bounds how many memories one recall looks at.
	scanLimit = 20_000
	// refusedLimit bounds how many refusals it reports.
	refusedLimit = 20
)

// recall finds memories by key or by shared words, and lets the context policy
// say which of them may enter a context. What it withholds comes back as a
// reason. The answer is the arbiter's, like that to an action.
func (f *Fold) recall(st *stage.State, a streams.Address, head streams.EntryHead, ev *streams.Recall) (*stage.Admission, error) {
	e := &streams.RecallEntry{EntryHead: head, Query: ev.Query, Key: ev.Key, Purpose: ev.Purpose, Limit: ev.Limit}
	if e.Limit == 0 {
		e.Limit = defaultLimit
	}
	if e.Purpose == "" {
		e.Purpose = "planning"
	}
	var err error
	if e.Unseen, e.Restored, err = f.sessionState(st, a, head, ev.After); err != nil {
		return nil, err
	}
	found, err := f.search(st, a.Project, head.Namespace(), ev)
	if err != nil {
		return nil, err
	}
	pol := beliefs.DefaultContext(e.Purpose)
	if p, _, err := f.policies.Active(st, streams.DoActivatePolicy); err != nil {
		return nil, err
	} else if p != nil {
		pol = p.Context(e.Purpose)
	}
	cands := make([]beliefs.Candidate, len(found))
	for i, m := range found {
		cands[i] = beliefs.Candidate{Axes: m.Ref.Axes, Sensitivity: m.Ref.Sensitivity, Origin: m.Ref.Origin, At: m.At, ValidFrom: m.From, ValidTo: m.To}
	}
	for i, r := range pol.Judge(head.Time, cands) {
		item := streams.RecallItem{BeliefRef: found[i].cited(), Content: found[i].Content, Score: found[i].score}
		switch r.Channel {
		case beliefs.Admitted:
			if len(e.Admitted) < e.Limit {
				e.Admitted = append(e.Admitted, item)
			}
		case beliefs.AsContext:
			if len(e.ContextOnly) < e.Limit {
				item.Scope = beliefs.ContextOnly
				e.ContextOnly = append(e.ContextOnly, item)
			}
		case beliefs.Contradiction:
			if len(e.Contradictions) < e.Limit {
				e.Contradictions = append(e.Contradictions, item)
			}
		default:
			if len(e.Refused) < refusedLimit {
				e.Refused = append(e.Refused, streams.Refusal{ID: found[i].Ref.ID, Reason: r.Reason, Text: r.Text})
			}
		}
	}
	return admission(streams.TypeRecall, a.Project, e)
}

type match struct {
	*record
	score float64
}

// search returns the project's memories that match, best first; ties are in
// the order of their ids.
func (f *Fold) search(st *stage.State, project string, in beliefs.Namespace, ev *streams.Recall) ([]match, error) {
	want := words(ev.Query)
	var out []match
	n := 0
	prefix := stage.Key(keyMemory, project, "")
	err := st.Scan(prefix, func(k, _ []byte) (bool, error) {
		if n++; n > scanLimit {
			return false, nil
		}
		id := string(bytes.TrimPrefix(k, prefix))
		r, err := f.belief(st, project, id)
		if err != nil || r == nil {
			return true, err
		}
		if !in.Sees(r.Ref.Namespace) {
			return true, nil // another user's, or another session's: not even refused
		}
		if ev.Key != "" && r.Ref.Key != ev.Key {
			return true, nil
		}
		score := 1.0
		if len(want) > 0 {
			if score = overlap(want, words(r.Ref.Key+" "+r.Content)); score == 0 {
				return true, nil
			}
		}
		out = append(out, match{r, score})
		return true, nil
	})
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].score != out[j].score {
			return out[i].score > out[j].score
		}
		return out[i].Ref.Confidence > out[j].Ref.Confidence
	})
	return out, err
}

func words(s string) map[string]bool {
	w := make(map[string]bool)
	for _, f := range strings.FieldsFunc(text.Normalize(s), func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 0x7f)
	}) {
		w[f] = true
	}
	return w
}

// overlap is the share of wanted words that are there.
func overlap(want, have map[string]bool) float64 {
	n := 0
	for w := range want {
		if have[w] {
			n++
		}
	}
	return float64(n) / float64(len(want))
}
