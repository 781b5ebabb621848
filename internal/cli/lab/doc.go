// Package lab has the commands that test the pipeline: probe, duel, replay, chaos, conformance and
// demo. Each file adds its commands to Verbs.
package lab

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
