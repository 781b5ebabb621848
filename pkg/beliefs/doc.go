// Package beliefs is Lazaret's model of knowledge: observed content, claims made from it, and which
// claims may be believed, served and acted upon.
//
// The chain is Observation → Claim → EvidenceSet → Belief → Decision → Action → Outcome → Revision.
// A belief has four independent axes (truth, retrieval, security, freshness). Each axis has a table
// of the possible transitions and of the authorities that may make them. A transition that is not
// in the table is an error.
//
// Property tests verify these guarantees. Content that only an external document, a model's
// inference or a synthetic probe supports never becomes supported, unless a person or a
// verification run (ByProbe) confirms it. Sentinels and reflection never loosen the state of a
// belief. Malicious is final. Quarantine does not affect truth. A weaker class of evidence never
// outvotes a stronger one, in any number.
//
// The package is pure: no I/O, no clock, no randomness. It does not verify who an authority is.
// Callers authenticate an authority before they pass it.
//
// The model follows the memory firewall of Lodestar 0.5. The transition tables and the rule for the
// initial state of a belief (Adopt) are those of Lodestar. The authority admission (ByAdmission) is
// an addition.
package beliefs
