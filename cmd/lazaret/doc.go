// Command lazaret is the person's tool: it starts the pipeline, speaks for an
// agent, shows what was read, believed, held and logged, and verifies the log.
// Its commands are in internal/cli.
//
// It imports the packages below internal/cli for their commands, and internal/daemon. Begin reading
// with main.go, which joins the lists of commands.
package main
