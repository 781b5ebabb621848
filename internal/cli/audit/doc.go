// Package audit has the commands of the tamper-evident log: audit, report and state.
// Each file adds its commands to Verbs.
package audit

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
