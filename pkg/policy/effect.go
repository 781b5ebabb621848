package policy

import "fmt"

// The effects that an entry may name. They say what an action does. Rules over sequences of actions
// use the same names.
const (
	EffectRead    = "read"    // takes data in
	EffectWrite   = "write"   // changes data
	EffectEgress  = "egress"  // sends data out
	EffectDelete  = "delete"  // destroys data
	EffectPay     = "pay"     // moves or commits money
	EffectPublish = "publish" // makes data public
	EffectExec    = "exec"    // runs code
	EffectSecret  = "secret"  // handles credentials or grants access
)

// Effects lists every effect, in the order of Class.Effects.
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

// effectNames has the names of every set of effects, so that classification does not allocate.
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
