package beliefs

import "time"

// Observation is what an agent read, or was told, and who vouches for it: the
// host's credential says its origin. What it says becomes claims; nothing of it
// is believed for having been observed.
type Observation struct {
	Origin Origin `json:"origin"`
	Tool   string `json:"tool,omitzero"` // that returned it
	Call   string `json:"call,omitzero"` // id of the tool call that it answers
	// Source names where it came from: a URL, a path, a sender. Empty: the tool.
	Source string `json:"source,omitzero"`
}

// Claim is a claim that an event made, and the belief it became.
type Claim struct {
	Kind    ClaimKind `json:"kind"`
	Quality Quality   `json:"quality"`
	Block   int       `json:"block"` // index of the content block; -1 for the envelope
	Belief  Belief    `json:"belief"`
	// Repeats counts how often the same content had been observed before in
	// the project. Repetition never promotes.
	Repeats uint64 `json:"repeats,omitzero"`
	// FirstSeen is when the same content was first observed, if it was.
	FirstSeen time.Time `json:"first_seen,omitzero"`
	// Parents are what a user's words turned out to come from: a paste.
	Parents []Parent `json:"parents,omitzero"`
}
