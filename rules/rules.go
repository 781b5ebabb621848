// Package rules holds the rule packs that Lazaret ships with, embedded into
// the binaries. The engine is lazaret/pkg/rules.
package rules

import (
	"embed"
	"io/fs"
)

//go:embed groups.yaml common.yaml */*.yaml
var files embed.FS

// FS is the shipped rule set.
func FS() fs.FS { return files }

// Groups are the sentinel groups that the shipped policy requires.
func Groups() []string { return []string{"core"} }
