// Package probe runs an executable threat model: scenarios in YAML, each with an attack
// in the steps of agents' hosts, its assertions for every step, and the claims that it
// does not make.
//
// A scenario is played over NATS, with credentials that are minted for each of its agents
// and speak for nobody else, in synthetic projects of its own. Assertions are checked on
// answers and on the ledger, never on a stage's memory.
//
// A scenario also names the defence that it is about (contrast). In contrast
// mode it runs against a pipeline without that one, and has to fail there: a
// probe that passes whatever one does shows nothing.
package probe
