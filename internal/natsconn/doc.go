// Package natsconn finds the NATS server and the credential of a command from the flags, environment
// variables and contexts of the `nats` CLI.
//
// The order of precedence is: flags, environment variables, a named context, the contexts that `lazaret
// up` created in the data folder, and the context selected in the nats CLI.
//
// It may import internal/natsfiles. Begin reading with Flags.
package natsconn
