package beliefs

// Belief is a belief as it stood when an entry was written.
type Belief struct {
	ID          string      `json:"id"`
	Found       bool        `json:"found"`
	Kind        ClaimKind   `json:"kind,omitzero"`
	Key         string      `json:"key,omitzero"`
	Axes        Axes        `json:"axes,omitzero"`
	Sensitivity Sensitivity `json:"sensitivity,omitzero"`
	Scope       Scope       `json:"scope,omitzero"`
	Quality     Quality     `json:"quality,omitzero"` // strongest class in support
	Origin      Origin      `json:"origin,omitzero"`  // weakest it was derived from
	Confidence  float64     `json:"confidence"`
	Source      string      `json:"source,omitzero"`
	Observation string      `json:"observation,omitzero"` // event that introduced it
	// Namespace is where in the project it holds; empty: in all of it.
	Namespace Namespace `json:"namespace,omitzero"`
	// Staged says that it waits for a person, or for independent evidence,
	// before it may be more than context.
	Staged bool `json:"staged,omitzero"`
	// Procedure is set of what would be carried out again by whoever finds it: a
	// skill. It is served once a person has signed for exactly its bytes.
	Procedure bool `json:"procedure,omitzero"`
	// Grade lets it be planned with though nobody vouches for it.
	Grade Grade `json:"grade,omitzero"`
	// Home is where it was shared from, if it was.
	Home Home `json:"home,omitzero"`
	// Class is its calibration class.
	Class string `json:"class,omitzero"`
	// Agent is whose event that was, and Via the decision that cites the
	// belief; both only where an event refers to it.
	Agent string `json:"agent,omitzero"`
	Via   string `json:"via,omitzero"`
}

// Class is the calibration class of a belief: those whose confidence is held
// against what becomes of them together. It is what the claim is about and the
// class of evidence that it began with, KIND/QUALITY, and the category of a
// memory behind that. An agent names none of it but the category.
func Class(kind ClaimKind, quality Quality, category string) string {
	s := kind.String() + "/" + quality.String()
	if category != "" {
		s += "/" + category
	}
	return s
}

// Seal commits to what never changes of a belief with a content.
func (b *Belief) Seal(contentDigest string) string {
	i := Identity{Content: contentDigest, Kind: b.Kind, Key: b.Key, Origin: b.Origin, Source: b.Source,
		Observation: b.Observation, Namespace: b.Namespace, Sensitivity: b.Sensitivity,
		Grade: b.Grade}
	return i.Seal()
}

// Parent is something that a text derives from.
type Parent struct {
	// ID is the event that brought it in, of Agent, or a belief.
	ID     string `json:"id"`
	Agent  string `json:"agent,omitzero"`
	Origin Origin `json:"origin,omitzero"`
	// Declared is set where the writer named it. Otherwise Phrases of the
	// text's own stand in it, the Share of them all that is, or the text
	// carries the Carrier that it was the first to name.
	Declared bool    `json:"declared,omitzero"`
	Phrases  int     `json:"phrases,omitzero"`
	Share    float64 `json:"share,omitzero"` // 0 to 1
	Carrier  string  `json:"carrier,omitzero"`
}

// Home is the project that a belief was shared from, by the word of whoever brought
// it: nobody has looked there. It keeps the origin that it has there, to be shown;
// here it is as untrusted as what comes from outside, whoever said it there.
type Home struct {
	Project string `json:"project"`
	Belief  string `json:"belief"` // its id there
	Origin  Origin `json:"origin"` // that it has there
}

// Shared is the origin that what is shared has where it arrives: that of its
// home or of who brings it, the weaker, and never better than a document's.
func (h *Home) Shared(writer Origin) Origin { return Weakest(writer, h.Origin, OriginDocument) }
