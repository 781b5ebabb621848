// Command arbiter answers proposals: actions, memory writes and recalls.
package main

import "lazaret/internal/daemon"

func main() { daemon.Arbiter().Main() }
