// Command sentinels judges ledger entries by the rules of one sentinel group.
package main

import "lazaret/internal/daemon"

func main() { daemon.Sentinels().Main() }
