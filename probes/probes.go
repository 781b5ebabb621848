// Package probes holds what the probes of `lazaret probe` hold fixed.
package probes

import _ "embed"

// DetectionPolicy is the policy under which `lazaret probe detection` plays its
// corpora.
//
//go:embed detection/policy.yaml
var DetectionPolicy []byte
