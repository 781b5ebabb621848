// Package probes holds what the probes of `lazaret probe` hold fixed: the threat
// model's scenarios and the policy under which corpora are played.
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

// Threats are the scenarios of `lazaret probe run`, a file each.
func Threats() fs.FS {
	sub, err := fs.Sub(threats, "threats")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// Elsewhere lists the invariants that are no scenarios, with the tests that hold
// them.
//
//go:embed elsewhere.yaml
var Elsewhere []byte
