package policy

import "fmt"

// The effects that an entry may name: what an action does, in the words of
// rules over sequences of actions.
const (
	EffectRead    = "read"    // takes data in
	EffectWrite   = "write"   // changes data
	EffectEgress  = "egress"  // lets data out
	EffectDelete  = "delete"  // destroys data
	EffectPay     = "pay"     // moves money, or commits to
	EffectPublish = "publish" // shows data to an open circle
	EffectExec    = "exec"    // runs code
	EffectSecret  = "secret"  // handles credentials or grants access
)

// Effects is every effect, in the order in which a Class lists them.
var Effects = [...]string{EffectRead, EffectWrite, EffectEgress, EffectDelete, EffectPay, EffectPublish, EffectExec,
	EffectSecret}

type effectSet uint8

func parseEffect(s string) (effectSet, error) {
	for i, name := range Effects {
		if s == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("effect %q is unknown: use some of %v", s, Effects)
}

// effectNames holds the names of every set, so that none is made per call.
var effectNames = func() (out [1 << len(Effects)][]string) {
	for set := range out {
		for i, name := range Effects {
			if set>>i&1 == 1 {
				out[set] = append(out[set], name)
			}
		}
		out[set] = out[set][:len(out[set]):len(out[set])]
	}
	return out
}()

func (s effectSet) names() []string { return effectNames[s] }
