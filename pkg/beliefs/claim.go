package beliefs

import "time"

// Observation describes content that an agent read or was told. Its origin comes from the host's credential. Claims are
// made from the content; the observation alone does not make them believed.
type Observation struct {
	Origin Origin `json:"origin"`
	Tool   string `json:"tool,omitzero"` // tool that returned it
	Call   string `json:"call,omitzero"` // id of the answered tool call
	// Source is where it came from: a URL, a path, a sender. Empty means the tool.
	Source string `json:"source,omitzero"`
}

// Claim is a claim of an event, and the belief that it became.
type Claim struct {
	Kind    ClaimKind `json:"kind"`
	Quality Quality   `json:"quality"`
	Block   int       `json:"block"` // index of the content block; -1 for the envelope
	Belief  Belief    `json:"belief"`
	// Repeats is how often the same content was observed before in the project. Repetition never
	// promotes a belief.
	Repeats uint64 `json:"repeats,omitzero"`
	// FirstSeen is when the same content was first observed before this claim. It is zero if this is the first time.
	FirstSeen time.Time `json:"first_seen,omitzero"`
	// Parents are the external texts that a user's words were pasted from.
	Parents []Parent `json:"parents,omitzero"`
}
