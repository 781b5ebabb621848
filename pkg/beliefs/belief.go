package beliefs

// Belief describes a belief as it was when an entry was written.
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
	// Namespace is the part of the project in which the belief applies. If it is empty, the belief applies in the whole
	// project.
	Namespace Namespace `json:"namespace,omitzero"`
	// Staged is set while the belief waits for a person or for independent evidence. While Staged is set, the belief
	// may be read as context, but not used for planning or actions.
	Staged bool `json:"staged,omitzero"`
	// Procedure is set for content that an agent may carry out again, such as a skill. It is served
	// only after a person signed its exact bytes.
	Procedure bool `json:"procedure,omitzero"`
	// Grade says whether an unverified belief may be used for planning. Empty means that it may not.
	Grade Grade `json:"grade,omitzero"`
	// Home names the other project from which the belief was shared. If the belief was made in this project, it is
	// empty.
	Home Home `json:"home,omitzero"`
	// Class is the belief's calibration class, see the function Class.
	Class string `json:"class,omitzero"`
	// Agent is the agent that sent the event from which the belief was made. Via is the decision that cites the belief.
	// Both are set only in an entry of a decision or an action that cites the belief.
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

// Seal returns the seal of the belief: a hash over its identity and its content.
func (b *Belief) Seal(contentDigest string) string {
	i := Identity{Content: contentDigest, Kind: b.Kind, Key: b.Key, Origin: b.Origin, Source: b.Source,
		Observation: b.Observation, Namespace: b.Namespace, Sensitivity: b.Sensitivity, Grade: b.Grade}
	return i.Seal()
}

// Parent is a belief or event that a text derives from.
type Parent struct {
	// ID is the id of the parent: of a belief, or of an event that Agent sent.
	ID     string `json:"id"`
	Agent  string `json:"agent,omitzero"`
	Origin Origin `json:"origin,omitzero"`
	// Declared is set if the writer named the parent. Otherwise ingest found the parent in one of two ways. Either the
	// parent contains phrases of the text: Phrases is their number, and Share is their share of all phrases of the
	// text. Or the parent was the first to name a carrier of the text: Carrier is this carrier.
	Declared bool    `json:"declared,omitzero"`
	Phrases  int     `json:"phrases,omitzero"`
	Share    float64 `json:"share,omitzero"` // 0 to 1
	Carrier  string  `json:"carrier,omitzero"`
}

// Home names the project that a belief was shared from, as the event that shared it says. Nobody verifies that. So the
// receiving project trusts the belief no more than a document. If Origin is less trusted than a document, it trusts the
// belief no more than Origin (see Shared).
type Home struct {
	Project string `json:"project"`
	Belief  string `json:"belief"` // the belief's id in that project
	Origin  Origin `json:"origin"` // the belief's origin in that project
}

// Shared returns the origin that a shared belief has in the receiving project. That is the least trusted of three
// origins: the belief's origin in its home project, the writer's origin, and document.
func (h *Home) Shared(writer Origin) Origin { return Weakest(writer, h.Origin, OriginDocument) }
