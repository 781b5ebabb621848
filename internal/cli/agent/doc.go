// Package agent has the commands that act as an agent: observe, remember, recall, gate, decide,
// session, import and memory. Each file adds its commands to Verbs.
package agent

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
