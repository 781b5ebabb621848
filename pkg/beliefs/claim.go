package beliefs

import "time"

// Observation describes content that an agent read or was told. Its origin comes from the host's credential. Claims are
// made from the content. That the content was observed does not mean that the claims are believed.
type Observation struct {
	Origin Origin `json:"origin"`
	Tool   string `json:"tool,omitzero"` // tool that returned it
	Call   string `json:"call,omitzero"` // id of the answered tool call
	// Source is where the content came from: a URL, a path, a sender. If it is empty, the content came from the tool
	// itself.
	Source string `json:"source,omitzero"`
}

// Claim is a claim that an event made, and the belief that was made from the claim.
type Claim struct {
	Kind    ClaimKind `json:"kind"`
	Quality Quality   `json:"quality"`
	// Index of the content block that makes the claim; -1 for a claim about the whole event.
	Block  int    `json:"block"`
	Belief Belief `json:"belief"`
	// Repeats is how often the same content was observed before in the project. However often content is repeated, that
	// does not make a belief supported.
	Repeats uint64 `json:"repeats,omitzero"`
	// FirstSeen is the time of the first observation of the same content. If the content was not observed before, it is
	// zero.
	FirstSeen time.Time `json:"first_seen,omitzero"`
	// Parents are the external texts from which a user pasted the words of this claim.
	Parents []Parent `json:"parents,omitzero"`
}
