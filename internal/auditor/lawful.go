package auditor

import (
	"bytes"
	"time"

	"lazaret/pkg/chain"
	"lazaret/streams"
)

// lateFor is for how long after a project was forgotten what other stages still
// write because of its entries may be forgotten at once: longer than a policy
// may give a group for its answer.
const lateFor = 10 * time.Minute

// Lawful is what lets a payload of the pipeline's log be forgotten: a forgotten
// entry of its project, behind it in the log. What sentinels and the arbiter
// still wrote afterwards, because of earlier entries, may be gone too, until the
// last stage has said that it dropped what it derived, or for lateFor. An erased
// entry lets those payloads of its project be erased that it lists. Nothing lets
// statements be forgotten, nor what the pipeline says for itself.
func Lawful() *chain.Lawful {
	return &chain.Lawful{
		Statements: []string{string(streams.TypeForgotten), string(streams.TypeDropped)},
		Covers:     covers,
		Listing:    string(streams.TypeErased),
		Listed:     listed,
		Kept:       statementTypes(),
	}
}

// statementTypes are the types of entries that are never forgotten.
func statementTypes() []string {
	var out []string
	for _, t := range []streams.Type{streams.TypeForgotten, streams.TypeErased, streams.TypeLegalHold, streams.TypeDropped} {
		out = append(out, string(t))
	}
	return out
}

// listed reads the list of an erased entry.
func listed(payload []byte) []uint64 {
	head, body, _ := bytes.Cut(payload, []byte{'\n'})
	if stage, _, _ := bytes.Cut(head, []byte{' '}); string(stage) != streams.StageIngest {
		return nil
	}
	if c := streams.Erasure(body); c != nil {
		return c.Entries
	}
	return nil
}

// forgetting is a forgotten entry and what followed from it.
type forgetting struct {
	index   int64
	dropped int64 // last word of a stage that it has dropped what it derived
	until   time.Time
}

func covers(statements []chain.Leaf) func(string, *chain.Leaf) bool {
	of := make(map[string][]forgetting)
	for _, s := range statements {
		fs := of[s.Project]
		switch {
		case s.Type == string(streams.TypeForgotten):
			of[s.Project] = append(fs, forgetting{s.Index, s.Index, s.Time.Add(lateFor)})
		case len(fs) > 0:
			fs[len(fs)-1].dropped = s.Index
		}
	}
	return func(subject string, leaf *chain.Leaf) bool {
		late := subject == lateSubject(leaf.Project)
		if leaf.Project == streams.SystemProject || subject != leaf.Project && !late {
			return false
		}
		if streams.Type(leaf.Type).Statement() {
			return false
		}
		switch streams.Type(leaf.Type) {
		case streams.TypeAlerts, streams.TypeAssessment, streams.TypeVerdict, streams.TypeDue, streams.TypeHoldState, streams.TypeCalibration:
		default:
			late = false // ingest's
		}
		for _, f := range of[leaf.Project] {
			if f.index > leaf.Index || late && (leaf.Index < f.dropped || !leaf.Time.After(f.until)) {
				return true
			}
		}
		return false
	}
}
