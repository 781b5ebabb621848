package beliefs

// Belief is the state of a belief when an entry was written.
type Belief struct {
	ID          string      `json:"id"`
	Found       bool        `json:"found"`
	Kind        ClaimKind   `json:"kind,omitzero"`
	Key         string      `json:"key,omitzero"`
	Axes        Axes        `json:"axes"` // without meaning if Found is false
	Sensitivity Sensitivity `json:"sensitivity,omitzero"`
	Scope       Scope       `json:"scope,omitzero"`
	Quality     Quality     `json:"quality,omitzero"` // strongest class of supporting evidence
	Origin      Origin      `json:"origin,omitzero"`  // weakest origin that it derives from
	Confidence  float64     `json:"confidence"`
	Source      string      `json:"source,omitzero"`
	Observation string      `json:"observation,omitzero"` // id of the event that introduced it
	// Namespace is the part of the project in which the belief applies. Empty means the whole
	// project.
	Namespace Namespace `json:"namespace,omitzero"`
	// Staged is set while the belief waits for a person or for independent evidence. Until then it
	// is served as context only.
	Staged bool `json:"staged,omitzero"`
	// Procedure is set for content that an agent may carry out again, such as a skill. It is served
	// only after a person signed its exact bytes.
	Procedure bool `json:"procedure,omitzero"`
	// Grade allows the belief to be used for planning although it is unverified.
	Grade Grade `json:"grade,omitzero"`
	// Home says from which other project the belief was shared. It is empty for a belief that this
	// project made itself.
	Home Home `json:"home,omitzero"`
	// Class is the belief's calibration class, see the function Class.
	Class string `json:"class,omitzero"`
	// Agent is the agent that sent the event that introduced the belief. Via is the decision that
	// cites the belief. Both are set only where the entry of a decision or an action cites the
	// belief.
	Agent string `json:"agent,omitzero"`
	Via   string `json:"via,omitzero"`
}

// Class returns the calibration class of a belief. Beliefs of one class are calibrated together:
// their confidence is compared with what happens to them later. The class is KIND/QUALITY of the
// claim, followed by /CATEGORY for a memory with a category. The category is the only part that an
// agent chooses.
func Class(kind ClaimKind, quality Quality, category string) string {
	s := kind.String() + "/" + quality.String()
	if category != "" {
		s += "/" + category
	}
	return s
}

// Seal returns the seal of the belief's identity and its content.
func (b *Belief) Seal(contentDigest string) string {
	i := Identity{Content: contentDigest, Kind: b.Kind, Key: b.Key, Origin: b.Origin, Source: b.Source,
		Observation: b.Observation, Namespace: b.Namespace, Sensitivity: b.Sensitivity,
		Grade: b.Grade}
	return i.Seal()
}

// Parent is a belief or event that a text derives from.
type Parent struct {
	// ID is the id of the belief, or of the event that Agent sent.
	ID     string `json:"id"`
	Agent  string `json:"agent,omitzero"`
	Origin Origin `json:"origin,omitzero"`
	// Declared is set if the writer named the parent. Otherwise ingest found the parent, in one of
	// two ways. Either the parent contains phrases of the text: Phrases is their number, and Share
	// is their share of all phrases of the text. Or the parent was the first to name a carrier of
	// the text: Carrier is this carrier.
	Declared bool    `json:"declared,omitzero"`
	Phrases  int     `json:"phrases,omitzero"`
	Share    float64 `json:"share,omitzero"` // 0 to 1
	Carrier  string  `json:"carrier,omitzero"`
}

// Home is the project that a belief was shared from, according to the event that shared it. Nobody
// verifies what the event says. So the receiving project trusts the belief no more than a document,
// and less if Origin is less trusted (see Shared).
type Home struct {
	Project string `json:"project"`
	Belief  string `json:"belief"` // the belief's id in that project
	Origin  Origin `json:"origin"` // the belief's origin in that project
}

// Shared returns the origin of a shared belief in the receiving project: the weakest of its origin
// at home, the writer's origin, and document.
func (h *Home) Shared(writer Origin) Origin { return Weakest(writer, h.Origin, OriginDocument) }
