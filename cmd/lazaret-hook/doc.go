// Command lazaret-hook answers a coding agent's hooks, as `lazaret hook` does. It is a separate small
// program, without server, stages and rule engine, because a host starts it for every tool call.
//
// It imports internal/hookcli and internal/natsconn; a test in internal/e2e keeps it from linking
// more. Begin reading with main.go.
package main
