package rules

import (
	"embed"
	"io/fs"
)

//go:embed groups.yaml common.yaml */*.yaml
var files embed.FS

// FS returns the shipped rule packs with their tests.
func FS() fs.FS { return files }

// Groups returns the sentinel groups that the shipped policy requires.
func Groups() []string { return []string{"core"} }
