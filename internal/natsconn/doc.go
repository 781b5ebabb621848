// Package natsconn finds the NATS server and the credential that a command
// uses, with the flags, environment variables and contexts of the `nats` CLI.
//
// The first that is given wins: flags, then environment variables, then a
// named context, then the contexts that `lazaret up` left in the data folder,
// then the context that is selected in the nats CLI.
//
// It may import internal/natsfiles. Begin reading with Flags.
package natsconn
