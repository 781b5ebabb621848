// Command ingest classifies every intake message, and keeps observations apart from
// beliefs.
package main

import "lazaret/internal/daemon"

func main() { daemon.Ingest().Main() }
