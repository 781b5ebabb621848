// Package hook connects a coding agent to Lazaret through the hooks of its host program. The host
// starts a process for each event; the process reads the event as JSON and answers in JSON or by its
// exit code.
//
// User input is recorded as an observation of origin user, a tool's result as one of the tool's origin.
// A tool call is proposed before it runs. A write to a file that the agent reads as its memory is
// proposed as a memory write too.
//
// A hook process is short-lived: it keeps longer-lived data (unacknowledged observations, held calls)
// in small files. It must start fast, so this package imports neither rules nor policies.
package hook
