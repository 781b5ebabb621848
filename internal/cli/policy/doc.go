// Package policy has the commands of the arbiter's policy and of calibration. Each file
// adds its commands to Verbs.
package policy

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
