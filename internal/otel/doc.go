// Package otel exports the ledger to OpenTelemetry: verdicts and tool executions as spans that follow
// the semantic conventions for generative AI (open-telemetry/semantic-conventions-genai, in
// development, of 2026-09).
//
// It follows the ledger with a read-only credential. A trace has the id of the sender's traceparent, or
// one derived from project, agent, session and the request's id; span ids are derived likewise.
// Everything else comes from the entries, so the same ledger always gives the same spans. Delivery is
// at least once: after a crash some spans are sent again with the same ids.
//
// Nothing above the sensitivity Options.Ceiling is exported. Content written by agents and people is exported only with
// Options.Content, and only from entries that are not labeled above that sensitivity (internal/ceiling). A span without
// content still has its entry's position in the ledger. The spans of verdicts, ended holds and memory operations also
// have the proposal's commitment in the audit log. A span that was sent before its entry was labeled cannot be
// recalled.
//
// Begin reading with follow.go, then fold.go.
package otel
