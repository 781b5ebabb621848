package signals

import (
	"bytes"
	"slices"
	"strings"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// byUser reports whether the user named the given carrier of the action in this session.
func (in *Input) byUser(carrier string) bool { return slices.Contains(in.intent.Carriers, carrier) }

// isTarget reports whether a carrier of an action is in a short argument. The host of a mail address is not a target.
func (in *Input) isTarget(kind, v string) bool {
	if in.call == nil {
		return false
	}
	if in.short == nil {
		in.short = make([]short, 0, len(in.call.Values))
		for i := range in.call.Values {
			if x := &in.call.Values[i]; !x.Prose {
				in.short = append(in.short, short{strings.ToLower(x.Text), intent.AppendWholeName(nil, x.Text), in.says(x)})
			}
		}
	}
	if len(in.short) == 0 || kind == "host" && in.isHostOfAddress(v) {
		return false
	}
	v = strings.ToLower(v)
	site := kind == "url" || kind == "host" // the carrier may be only a link in a message
	if slices.ContainsFunc(in.short, func(x short) bool { return !(site && x.says) && strings.Contains(x.lower, v) }) {
		return true
	}
	var buf [128]byte
	whole := intent.AppendWholeName(buf[:0], v)
	return slices.ContainsFunc(in.short, func(x short) bool { return !(site && x.says) && bytes.Contains(x.whole, whole) })
}

// says reports whether an argument is a sentence that the action sends to somebody whom another argument names. If such
// a sentence has a link, the receiver may follow it, but the action does not reach the link's host.
func (in *Input) says(x *intent.Value) bool {
	words := intent.SplitName(x.Path)
	return x.Running && len(in.call.Values) > 1 && len(words) > 0 && messageWords[words[len(words)-1]] &&
		slices.Contains(in.Action.Acts, "send")
}

var messageWords = text.Set("body text message content html comment note reply answer")

// short is an argument that is not prose, in two forms in which it is searched.
type short struct {
	lower string
	whole []byte
	says  bool // see Input.says
}

// targets calls f with the index of each carrier in the arguments that is a receiver or destination of the action. It
// stops when f returns false.
func (in *Input) targets(f func(i int) bool) {
	for i, c := range in.Content.Carriers {
		kind, v, _ := strings.Cut(c, ":")
		if reaches(c) && in.isTarget(kind, v) && !f(i) {
			return
		}
	}
}

// targetsNamed reports whether the action has receivers or destinations, and the user named all of them.
func (in *Input) targetsNamed() bool {
	some, all := false, true
	in.targets(func(i int) bool {
		some, all = true, in.byUser(in.Content.Carriers[i])
		return all
	})
	return some && all
}

// elsewhere reports whether a sentence names carriers, the action has receivers or destinations, and none of these is
// among the sentence's carriers. Then the sentence does not ask for this action.
func (in *Input) elsewhere(carriers []uint32) bool {
	if len(carriers) == 0 {
		return false
	}
	some, shared := false, false
	in.targets(func(i int) bool {
		some, shared = true, hasHash(carriers, in.carriers[i])
		return !shared
	})
	return some && !shared
}

// hostOfAddress reports whether a carrier is a host that is part of a mail address in the content.
func (in *Input) hostOfAddress(carrier string) bool {
	host, ok := strings.CutPrefix(carrier, "host:")
	return ok && in.isHostOfAddress(host)
}

func (in *Input) isHostOfAddress(host string) bool {
	return slices.ContainsFunc(in.Content.Carriers, func(c string) bool {
		name, ok := strings.CutSuffix(c, host)
		return ok && strings.HasPrefix(c, "email:") && strings.HasSuffix(name, "@")
	})
}

// reaches reports whether a carrier is an address of someone outside the project. Numbers and paths of records are not.
// Ordinary requests often name them, so they say nothing about an attack.
func reaches(carrier string) bool { return kindOf(carrier).Traits().ReachesOut }

// kindOf returns the kind of a carrier, which is written as kind:value.
func kindOf(carrier string) text.Kind {
	kind, _, _ := strings.Cut(carrier, ":")
	return text.Kind(kind)
}
