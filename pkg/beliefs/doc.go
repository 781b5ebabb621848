// Package beliefs is Lazaret's epistemic model: what was read, what is claimed
// on the strength of it, and what may be believed, served and acted upon.
//
// The chain is Observation → Claim → EvidenceSet → Belief → Decision → Action
// → Outcome → Revision. A belief has four independent axes (truth, retrieval,
// security, freshness), each with a table of the moves that exist and of the
// authorities that may make them. A move that is not in its table is an error.
//
// Guaranteed, and proven by properties in the tests: content whose only
// support is an external document, a model's inference or a synthetic probe is
// never supported, whoever asks, unless a person or a probe vouches for it;
// sentinels and reflection never loosen; malicious is final; quarantine says
// nothing about truth; a weaker class of evidence never outvotes a stronger
// one, in whatever numbers.
//
// The package is pure: no I/O, no clock, no randomness. It does not know who
// an authority is; callers authenticate one before they name it here.
//
// The model follows the memory firewall of Lodestar 0.5; its tables and
// adoption rule are facts taken from there, the admission authority is ours.
package beliefs
