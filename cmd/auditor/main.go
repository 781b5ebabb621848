// Command auditor keeps the ledger in a tamper-evident log.
package main

import "lazaret/internal/daemon"

func main() { daemon.Auditor().Main() }
