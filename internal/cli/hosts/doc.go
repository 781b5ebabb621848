// Package hosts has the commands that connect an agent's host to Lazaret: connect, hook and mcp. Each
// file adds its commands to Verbs.
package hosts

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
