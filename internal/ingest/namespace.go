package ingest

import (
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// placeOf returns the place of a belief within its project: a user, a session, or "" for the whole project.
func placeOf(r *record) string { return r.Ref.Namespace.String() }

// placesSeen returns the places whose beliefs an event may see: its own namespace and those that contain it. Beliefs of
// other places are not even reported as refused.
func placesSeen(h streams.EntryHead) []string {
	in := h.Namespace()
	var out []string
	for _, n := range []beliefs.Namespace{{}, {User: in.User}, {Session: in.Session}, in} {
		s := n.String()
		if len(out) == 0 || s != "" && s != out[len(out)-1] {
			out = append(out, s)
		}
	}
	return out
}

// seenFrom reports whether the namespace of an entry may see a belief.
func seenFrom(h streams.EntryHead, r *record) bool { return h.Namespace().Sees(r.Ref.Namespace) }
