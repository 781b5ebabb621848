package ingest

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() {
	admits(streams.KindAct, (*Fold).propose)
	writesIn(streams.TypeAction, (*Fold).applyAction)
}

// propose admits an action. Its entry has the present state of the beliefs that the action and its decision cite, and
// the level that the policy in force gives the action's tool.
func (f *Fold) propose(st *stage.State, m *stage.Message, head streams.EntryHead,
	ev *streams.Action) (*stage.Admission, error) {
	a := m.Address
	e := &streams.ActionEntry{EntryHead: head, Args: ev.Args, Replaces: ev.Replaces,
		Action: beliefs.Action{Tool: ev.Tool, Decision: ev.Decision, Confidence: ev.Confidence,
			Contract: beliefs.Contract{Blast: ev.Blast, Reversibility: ev.Reversibility, Sensitivity: ev.Sensitivity,
				Preconditions: ev.Preconditions}}}
	var err error
	if e.UnseenBy, e.Restored, err = f.sessionState(st, a, head, ev.After); err != nil {
		return nil, err
	}
	e.Unseen = e.UnseenBy != nil
	ids := append([]string(nil), ev.Beliefs...)
	if ev.Decision != "" {
		var cited []string
		ok, err := st.Load(stage.Key(keyDecision, a.Project, a.Agent, ev.Decision), &cited)
		if err != nil {
			return nil, err
		}
		if !ok {
			// If the state does not have the decision, cite it like an unknown belief.
			cited = []string{ev.Decision}
		}
		ids = append(ids, cited...)
		// Several decisions may have been sent with this id. Cite all of them.
		all, err := others(st, a.Project, a.Agent, ev.Decision)
		if err != nil {
			return nil, err
		}
		for _, id := range all {
			var cited []string
			if _, err := st.Load(stage.Key(keyDecision, a.Project, a.Agent, id), &cited); err != nil {
				return nil, err
			}
			ids = append(ids, cited...)
		}
	}
	if e.Beliefs, err = f.cite(st, a.Project, ids, head.Time); err != nil {
		return nil, err
	}
	for i := range e.Beliefs {
		if b := &e.Beliefs[i]; !slices.Contains(ev.Beliefs, b.ID) {
			b.Via = ev.Decision
		}
	}
	for _, b := range e.Beliefs {
		if !b.Sensitivity.Within(e.Sensitivity) {
			e.Sensitivity = b.Sensitivity // the action may pass on data of a belief that it cites
		}
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	if pol != nil {
		if e.Annotations, err = f.annotations(st, a.Project, ev.Tool); err != nil {
			return nil, err
		}
		e.Catalogue = ev.Catalogue
		if e.Accepted, err = accepted(st, a.Project, ev.Catalogue, ev.Tool); err != nil {
			return nil, err
		}
		call := policy.Call{Tool: ev.Tool, Args: ev.Args, Project: a.Project, Agent: a.Agent, Of: ev.Catalogue,
			Accepted: e.Accepted}
		c := pol.Class(call).RaiseByAnnotations(e.Annotations)
		if ev.Level != nil {
			c = c.Raise(*ev.Level)
		}
		e.Level, e.Matched = c.Level, c.Entry
		e.Effects = c.Effects
		e.Blast, e.Reversibility = max(e.Blast, c.Blast), max(e.Reversibility, c.Reversibility)
	} else {
		e.Level = beliefs.L4 // an unknown tool may do anything
	}
	if ev.Host != "" {
		v, err := streams.ParseVerdict(ev.Host)
		if err != nil {
			return nil, err
		}
		e.Host = &v
	}
	e.Text = argText(ev.Args)
	if e.Text != "" {
		e.Features = text.Analyze(e.Text)
	}
	e.Loads = ev.Loads
	if err := f.relate(st, a.Project, e); err != nil {
		return nil, err
	}
	if e.Sources, err = f.grounds(st, a.Project, e); err != nil {
		return nil, err
	}
	if e.Repeats, err = f.precedent(st, a.Project, e); err != nil {
		return nil, err
	}
	if e.Shown, err = f.shown(st, a.Project, e); err != nil {
		return nil, err
	}
	return admission(streams.TypeAction, a.Project, e)
}

// applyAction stores which beliefs influenced the action, and the data with which its result and its verdict are
// handled later.
func (f *Fold) applyAction(st *stage.State, project string, e *streams.ActionEntry) error {
	if err := f.noteCall(st, project, e); err != nil {
		return err
	}
	if err := f.noteCallOf(st, project, e); err != nil {
		return err
	}
	if err := noteProposed(st, project, e); err != nil {
		return err
	}
	for _, b := range e.Beliefs {
		if !b.Found {
			continue
		}
		if err := f.influence(st, project, b.ID, impactAction, e.Agent, e.ID); err != nil {
			return err
		}
	}
	return nil
}

// maxArgDepth is the depth to which arguments are read. Deeper values are left out of the entry's Text. Its Args has
// them.
const maxArgDepth = 16

// argText returns the strings and numbers of the arguments, one per line, in the order of their keys. A key that is not
// a plain name, such as an address, is included like a value.
func argText(args []byte) string {
	if len(args) == 0 {
		return ""
	}
	var v any
	if streams.Unmarshal(args, &v) != nil {
		return string(args)
	}
	var b strings.Builder
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		if depth > maxArgDepth {
			return
		}
		switch v := v.(type) {
		case string:
			b.WriteString(v)
			b.WriteByte('\n')
		case float64:
			b.WriteString(strconv.FormatFloat(v, 'f', -1, 64)) // no exponent, so that account numbers match
			b.WriteByte('\n')
		case []any:
			for _, x := range v {
				walk(x, depth+1)
			}
		case map[string]any:
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			sort.Strings(keys)
			for _, k := range keys {
				if !plainName(k) {
					walk(k, depth+1)
				}
				walk(v[k], depth+1)
			}
		}
	}
	walk(v, 0)
	return b.String()
}

// plainName reports whether a key is an ordinary parameter name: it consists of letters, digits, - and _, and does not
// begin with a digit.
func plainName(k string) bool {
	for i, c := range k {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && c != '_' && c != '-' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}
