// Command ingest decides what every intake message is, and keeps what was read
// apart from what is believed.
package main

import "lazaret/internal/daemon"

func main() { daemon.Ingest().Main() }
