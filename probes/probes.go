package probes

import (
	"embed"
	"io/fs"
)

// DetectionPolicy is the policy under which `lazaret probe detection` plays its
// corpora.
//
//go:embed detection/policy.yaml
var DetectionPolicy []byte

//go:embed threats/*.yaml
var threats embed.FS

// Threats returns the scenarios of `lazaret probe run`, one file each.
func Threats() fs.FS {
	sub, err := fs.Sub(threats, "threats")
	if err != nil {
		panic(err) // cannot happen: the name is a constant
	}
	return sub
}

// Elsewhere lists the invariants that have no scenario, with the tests that check them.
//
//go:embed elsewhere.yaml
var Elsewhere []byte
