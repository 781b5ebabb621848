// Package verb is what the commands of lazaret share: the list that commands add
// themselves to, the connection, the agent that a command speaks for, flags, and signed
// orders. A package of commands imports it and never another's internals. Begin reading
// in verbs.go.
package verb
