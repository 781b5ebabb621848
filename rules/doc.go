// Package rules holds the rule packs that Lazaret ships with, embedded into
// the binaries. The engine is lazaret/pkg/rules.
//
// It imports no other package of Lazaret. Each folder is a pack, with a pack.yaml and tests beside its rules;
// docs/rules.md explains how to write one.
package rules
