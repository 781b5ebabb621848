// Command lazaret-hook answers a coding agent's hooks, as `lazaret hook` does. It
// is a program of its own because a host starts it for every call of a tool: it
// links no server, no stage and no rule engine.
//
// It imports internal/hookcli and internal/natsconn; a test in internal/e2e keeps it from linking
// more. Begin reading with main.go.
package main
