// Package hosts has the commands that stand between an agent's host and its tools:
// connect, hook and mcp. Each file adds its commands to Verbs.
package hosts

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
