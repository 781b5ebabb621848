package streams

import (
	"time"

	"lazaret/pkg/beliefs"
)

// Signature describes the signature of an accepted order.
type Signature struct {
	Signer string    `json:"signer"` // name of the key
	Key    string    `json:"key"`    // the pinned key itself
	Note   string    `json:"note"`   // the whole signed note
	Nonce  string    `json:"nonce"`
	Until  time.Time `json:"until"` // when the nonce expires
}

// IncidentEntry records an event of an incident, and the incident's state after the event. The event's effects on
// beliefs are in the revision entries that follow.
type IncidentEntry struct {
	EntryHead
	Event    beliefs.IncidentEvent `json:"event"`
	Incident beliefs.Incident      `json:"incident"`
	// Scope is the scope of a quarantine.
	Scope *beliefs.IncidentScope `json:"scope,omitzero"`
	Text  string                 `json:"text,omitzero"` // text of the signer
	// Signed describes the signature, if a person or a service ordered the change.
	Signed *Signature `json:"signed,omitzero"`
}

// OrderEntry records a signed order that was refused, as received. The order changed nothing. It is kept as evidence.
type OrderEntry struct {
	EntryHead
	Subject string `json:"subject"`       // what the order claims to be about
	Note    string `json:"note"`          // clipped to MaxResolution
	Size    int    `json:"size,omitzero"` // size of the whole note in bytes, if the note is clipped
	// Do is what the order asks for, such as "restore". Signer is the name of the key that signed it. Both are empty if
	// the signature did not verify, or if the key is a passkey, which may sign no orders.
	Do     string `json:"do,omitzero"`
	Signer string `json:"signer,omitzero"`
	Check  string `json:"check"` // the check that the order failed
	Text   string `json:"text"`  // the reason
}
