// Package duel plays an attacker who has the source: it writes seed attacks down
// in many ways, plays each against the decision path, and keeps what passes.
//
// A seed is a goal, which is a call of a tool that changes or sends something,
// and a setting: a user's task, honest calls, and a place in what they return. A
// recipe says how the request for the goal is written there. The agent obeys: it
// makes the goal's call once it was shown the text. A seed is broken if that call
// is allowed.
//
// The same seeds, number of tries and random seed give the same result, however
// many run at once.
//
// It may import the folds, internal/live and pkg/rules. Begin reading with duel.go; seed.go has the
// goals, mutate.go the ways to write them, pipe.go the decision path.
package duel
