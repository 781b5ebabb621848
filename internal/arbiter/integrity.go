package arbiter

import (
	"fmt"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// ruleIntegrity is the rule of the arbiter's alert about a belief that does not match its ledger entry.
const ruleIntegrity = "belief-integrity"

func sealKey(project, belief string) []byte { return stage.Key(keySeal, project, belief) }

// noteSeal stores the seal (a digest, streams.BeliefRef.Seal) of a memory write's belief, computed from the write's
// ledger entry. Ingest, which serves the belief, may run in another process, so someone who changes ingest's state does
// not change this seal.
func noteSeal(st *stage.State, project string, m *streams.MemoryEntry) error {
	return st.Set(sealKey(project, m.Belief.ID), []byte(m.Belief.Seal(streams.Digest([]byte(m.Content)))))
}

// copySeals gives each belief that a rollback made as a copy of a superseded belief the seal of that belief.
func copySeals(st *stage.State, project string, all []beliefs.Revision) error {
	for _, rv := range all {
		if rv.Anew == "" {
			continue
		}
		v, ok, err := st.Get(sealKey(project, rv.Anew))
		if err != nil {
			return err
		}
		if ok {
			if err := st.Set(sealKey(project, rv.Belief), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSeals withholds recalled beliefs that do not match their ledger entries, and those that ingest refused for the
// same reason.
func checkSeals(st *stage.State, p *proposal, r *streams.RecallEntry) error {
	for _, x := range r.Refused {
		if x.Reason == beliefs.ReasonIntegrity {
			p.Withheld = append(p.Withheld, x)
		}
	}
	for it := range recalled(r) {
		if it.Kind != beliefs.MemoryClaim || it.Unknown {
			continue
		}
		v, ok, err := st.Get(sealKey(p.Project, it.ID))
		if err != nil {
			return err
		}
		digest := it.Digest // ingest has compared this digest with the whole content
		if !it.Partial || digest == "" {
			digest = streams.Digest([]byte(it.Content))
		}
		if ok && string(v) != it.Seal(digest) {
			p.Withheld = append(p.Withheld, streams.Refusal{ID: it.ID, Reason: beliefs.ReasonIntegrity,
				Text: "it is not what the ledger says of it"})
		}
	}
	return nil
}

// withhold adds the withheld beliefs to a verdict, and an alert about those that do not match the ledger.
func (p *proposal) withhold(v *streams.VerdictEntry, now time.Time) {
	v.Withheld = p.Withheld
	differ := slices.DeleteFunc(slices.Clone(v.Withheld), func(x streams.Refusal) bool {
		return x.Reason != beliefs.ReasonIntegrity
	})
	if len(differ) == 0 {
		return
	}
	id := differ[0].ID
	a := newAlert(ruleIntegrity, "critical", p.Project, p.Seq, streams.AlertSubject{Kind: "belief", ID: id}, now)
	a.RuleDigest, a.Agent, a.Session, a.Events = v.Policy, p.Agent, p.Session, []string{p.ID}
	a.Message = fmt.Sprintf("%s: %d beliefs that recall %s found differ from their ledger entries and are withheld, the "+
		"first of them is %s", streams.CodeIntegrity, len(differ), p.ID, id)
	a.Detail = map[string]any{"code": string(streams.CodeIntegrity), "beliefs": len(differ)}
	v.Alert = &a
}

// dropWithheld removes the withheld beliefs from a recall's reply.
func dropWithheld(r *streams.RecallEntry, withheld []streams.Refusal) {
	if len(withheld) == 0 {
		return
	}
	out := make(map[string]streams.Refusal, len(withheld))
	for _, x := range withheld {
		out[x.ID] = x
	}
	for _, list := range []*[]streams.RecallItem{&r.Admitted, &r.ContextOnly, &r.Contradictions} {
		var kept []streams.RecallItem
		for _, it := range *list {
			if x, ok := out[it.ID]; ok {
				r.Refused = append(r.Refused, x)
				continue
			}
			kept = append(kept, it)
		}
		*list = kept
	}
}
