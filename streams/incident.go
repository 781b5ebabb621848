package streams

import (
	"time"

	"lazaret/pkg/beliefs"
)

// Signature is who signed an order that was obeyed, and what.
type Signature struct {
	Signer string    `json:"signer"` // name of the key
	Key    string    `json:"key"`    // the pinned key itself
	Note   string    `json:"note"`   // the signed note, whole
	Nonce  string    `json:"nonce"`
	Until  time.Time `json:"until"` // of the nonce
}

// IncidentEntry is something that happened to an incident. It says how the
// incident stands with it; what it did to beliefs is in the revision entries
// that follow.
type IncidentEntry struct {
	EntryHead
	Event    beliefs.IncidentEvent `json:"event"`
	Incident beliefs.Incident      `json:"incident"`
	// Scope is what a quarantine looked for.
	Scope *beliefs.IncidentScope `json:"scope,omitzero"`
	Text  string                 `json:"text,omitzero"` // the signer's words
	// Signed is set where a person or a service asked for it.
	Signed *Signature `json:"signed,omitzero"`
}

// OrderEntry is a signed order that was refused, as it came in. Nothing changed
// by it, and it is evidence.
type OrderEntry struct {
	EntryHead
	Subject string `json:"subject"`       // what it said that it is about
	Note    string `json:"note"`          // clipped to MaxResolution
	Size    int    `json:"size,omitzero"` // of the note, where it was clipped
	// Do and Signer are set once the signature was verified.
	Do     string `json:"do,omitzero"`
	Signer string `json:"signer,omitzero"`
	Check  string `json:"check"` // that it failed
	Text   string `json:"text"`  // why
}
