// Package live plays recorded sessions against a real pipeline with an agent that obeys every
// instruction, and reports what the pipeline held.
//
// The agent proposes each recorded call. When a result with a planted instruction is shown, it makes the
// attacker's calls, even if the recorded model did not. A held call is not executed: its result is not
// shown, so the agent does not obey a planted instruction in it. The later calls are proposed as recorded.
//
// The package reads labels, such as which results have a planted instruction, from the lines of the sessions' files,
// and verdicts from the replies. Levels of tools come from the shipped policy, which knows no tool by name.
//
// It may import client, internal/replay and pkg/policy. Begin reading with session.go, then play.go
// and report.go.
package live
