package approval

import (
	"fmt"

	"lazaret/streams"
)

// CheckVerdict returns an error if the verdict v is not an answer to the proposal ev. It compares the type and the id.
// For an action or a memory write it also compares the digest.
func CheckVerdict(v *streams.VerdictEntry, project, agent string, ev streams.Event) error {
	var want streams.Type
	var digest string
	var err error
	switch ev := ev.(type) {
	case *streams.Action:
		want = streams.TypeAction
		digest, err = ActionDigest(project, agent, ev.Session, ev.ID, ev.Tool, ev.Args)
	case *streams.Memory:
		want = streams.TypeMemory
		digest, err = MemoryDigest(project, agent, ev.Session, ev.ID, ev.Key, ev.Content)
	case *streams.Recall:
		want = streams.TypeRecall
	default:
		return fmt.Errorf("%T is not a proposal", ev)
	}
	if err != nil {
		return err
	}
	id := streams.HeadOf(ev).ID
	for _, r := range v.Reasons {
		if r.Code == streams.CodeTaken && !v.Learn {
			return fmt.Errorf("%s %s: %s", want, id, r.Text)
		}
	}
	if v.Type != want || v.ID != id && v.Reuses != id || v.Agent != agent {
		return fmt.Errorf("the answer is to %s %s of agent %s, and not to %s %s", v.Type, v.ID, v.Agent, want, id)
	}
	// If the arbiter no longer has the verdict, it answers with a hold that has no digest.
	if v.Digest != digest && (v.Digest != "" || v.Verdict == streams.Allow && !v.Learn) {
		return fmt.Errorf("the answer is to another %s with the id %s: the answer has the digest %q, but the proposal has %q",
			want, id, v.Digest, digest)
	}
	return nil
}
