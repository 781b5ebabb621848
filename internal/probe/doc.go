// Package probe runs an executable threat model: scenarios in YAML, each with an
// attack told in the steps of agents' hosts, what it asserts of every step, and
// what it does not claim.
//
// A scenario is played over NATS, with credentials that are minted for each of
// its agents and speak for nobody else, in synthetic projects of its own. What
// is asserted is read from answers and from the ledger, never from a stage's
// memory.
//
// A scenario also names the defence that it is about (contrast). In contrast
// mode it runs against a pipeline without that one, and has to fail there: a
// probe that passes whatever one does shows nothing.
package probe
