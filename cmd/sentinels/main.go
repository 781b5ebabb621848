package main

import "lazaret/internal/daemon"

func main() { daemon.Sentinels().Main() }
