// Command lazaret is the tool for people: it starts the pipeline, acts as an agent, shows observations,
// beliefs, holds and the log, and verifies the log. Its commands are in internal/cli.
//
// It imports the packages below internal/cli for their commands, internal/hookcli for the exit codes of
// failed hooks, and internal/daemon for the daemons. Begin reading with main.go, which joins the lists of
// commands.
package main
