// Package holds has the commands that show alerts, verdicts and holds and resolve
// holds. Each file adds its commands to Verbs.
package holds

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
