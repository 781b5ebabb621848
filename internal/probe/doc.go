// Package probe runs an executable threat model: scenarios in YAML. Each scenario describes an attack as
// steps of agents' hosts. It has assertions about the steps, and says what they do not prove.
//
// A scenario is played over NATS in its own synthetic projects, with credentials that are issued for
// its agents and valid for nothing else. Assertions are checked on replies and on the ledger, never on
// a stage's memory.
//
// A scenario also names the defense that it tests (contrast). In contrast mode it runs against a
// pipeline without that defense and must fail: a probe that always passes proves nothing.
//
// Begin reading with scenario.go, then run.go and play.go.
package probe
