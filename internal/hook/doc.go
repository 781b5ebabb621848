// Package hook speaks for a coding agent through the hooks of its host program:
// a process is started for each event, reads it as JSON and answers in JSON or by
// its exit code.
//
// User input is an observation of origin user, a tool's result one of its own origin, and
// a call of a tool is proposed before it is made. A write into a file that the agent
// reads as its memory is a memory write too.
//
// A hook is a short process: it keeps longer-lived data (unacknowledged observations,
// held calls) in small files. It must start fast, so this package knows neither rules nor
// policies.
package hook
