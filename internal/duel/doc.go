// Package duel simulates an attacker who knows the source code: it phrases seed attacks in many ways,
// plays each against the decision path, and reports those that pass.
//
// A seed consists of a goal, which is a tool call that changes or sends something, and a setting: a
// user's task, honest calls, and a place in their results. A recipe determines how the request for the
// goal is written at that place. The agent obeys: it makes the goal's call once it was shown the text.
// A seed is broken if that call is allowed.
//
// The same seeds, number of tries and random seed give the same result, whatever the parallelism.
//
// It may import the stages, internal/stage, internal/activation, internal/live, internal/replay and
// pkg/rules. Begin reading with duel.go; seed.go has the goals, mutate.go the ways to write them, pipe.go
// the decision path.
package duel
