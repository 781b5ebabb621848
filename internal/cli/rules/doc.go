// Package rules has the commands of rule sets: rules check, test, explain, activate and
// more. Each file adds its commands to Verbs.
package rules

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
