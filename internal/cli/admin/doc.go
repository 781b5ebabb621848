// Package admin has the commands that run and maintain the pipeline: up, server, doctor, key, agent,
// backup, notify and more. Each file adds its commands to Verbs.
package admin

import "lazaret/internal/cli/verb"

// Verbs are the commands of this package.
var Verbs verb.List
