// Package beliefs has the commands that show and correct beliefs: beliefs, world and incident. Each
// file adds its commands to Verbs.
package beliefs

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
