// Package bench has the commands of the benchmarks. Each file adds its commands to
// Verbs.
package bench

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
