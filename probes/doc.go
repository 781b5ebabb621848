// Package probes holds the fixed inputs of `lazaret probe`: the scenarios of the threat model and
// the policy for corpora.
//
// It imports no other package of Lazaret. internal/probe plays the scenarios; docs/probes.md is their
// reference.
package probes
