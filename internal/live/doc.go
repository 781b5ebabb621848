// Package live plays recorded sessions against a real pipeline with an agent that obeys every
// instruction, and reports what the pipeline held.
//
// The agent proposes each recorded call. Once a result with a planted instruction is shown, it makes
// the attacker's calls, whatever the recorded model did. A held call is not executed: its result is not
// shown, and a planted instruction in that result is not obeyed. The later steps are proposed as
// recorded.
//
// The package reads labels from the sessions' lines and verdicts from the replies. Levels of tools come
// from the shipped policy, which knows no tool by name.
//
// It may import client, internal/replay and pkg/policy. Begin reading with session.go, then play.go
// and report.go.
package live
