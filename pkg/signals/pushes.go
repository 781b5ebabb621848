package signals

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

var partPushes = keep(orderPushes, (*State).notePushes)

func init() {
	register(partPushes, Signal{
		Name:   "signal.pushes",
		Doc:    "targets in this content that its source has named in three or more different contents",
		Key:    "source and target",
		Window: "all",
		Bound:  "50000",
		Cost:   "1 per target",
	}, (*State).pushes)
}

// Push is a target, such as a host or a name, that one source mentions in several contents.
type Push struct {
	Source string `cel:"source"`
	Target string `cel:"target" doc:"a host, address, handle or name, as kind:value"`
	Count  int64  `cel:"count" doc:"number of different contents in which the source names the target"`
}

// findTargets returns the hosts, addresses, handles and capitalized names of the content, which signal.pushes counts by
// source.
func (in *Input) findTargets() []string {
	var out []string
	for _, c := range in.Content.Carriers {
		if kindOf(c).Traits().Pushed {
			out = append(out, c)
		}
	}
	prev := "."
	for w := range strings.FieldsSeq(streams.Clip(in.Content.Text, 4<<10)) {
		name := edges.trim(w)
		// A capital letter at the beginning of a sentence does not show that the word is a name.
		if len(name) > 2 && name[0] >= 'A' && name[0] <= 'Z' && !strings.ContainsAny(prev[len(prev)-1:], ".:!?") &&
			len(out) < 24 {
			out = append(out, "name:"+strings.ToLower(name))
		}
		prev = w
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (in *Input) sourceOf() string {
	if s := cmp.Or(in.Event.Source, in.Event.Tool); s != "" {
		return streams.Clip(s, 120)
	}
	return streams.Clip(in.Event.Origin+":"+in.Event.Agent, 120)
}

func (s *State) notePushes() {
	if !s.hasExternalContent() || s.In.Event.Kind != "memory" || len(s.In.pushes) == 0 {
		return
	}
	s.pushesRead = true
	var h uint32
	if ps := s.In.features.Prints; len(ps) > 0 {
		h = binary.BigEndian.Uint32(ps[0].Exact[:]) // digest of the normal form
	} else {
		h = hash32(text.Normalize(s.In.Content.Text))
	}
	b := s.t.Index()
	if b == nil {
		return
	}
	for i, k := range s.In.targetsBy {
		s.contents = b.Linked(index.LinkPushes, k, s.contents[:0])
		n := len(s.contents)
		if n < index.MaxDistinct && !slices.Contains(s.contents, h) {
			b.Link(index.LinkPushes, k, h)
			n++
		}
		s.push(i, n)
	}
}

func (s *State) push(target, contents int) {
	if contents >= minPushes {
		s.pushed = append(s.pushed, &Push{Source: s.In.sourceOf(), Target: s.In.pushes[target], Count: int64(contents)})
	}
}

// minPushes is the minimum number of contents in which a source must mention a target, so that it counts as a Push.
const minPushes = 3

func (s *State) pushes() []*Push {
	if s.pushesRead {
		return s.pushed // recorded together with the event
	}
	s.pushesRead = true
	b := s.t.Index()
	if b == nil {
		return s.pushed
	}
	for i, k := range s.In.targetsBy {
		s.contents = b.Linked(index.LinkPushes, k, s.contents[:0])
		s.push(i, len(s.contents))
	}
	return s.pushed
}
