// Package otel exports the ledger to OpenTelemetry: verdicts and tool executions as spans
// after the semantic conventions for generative AI
// (open-telemetry/semantic-conventions-genai, in development, of 2026-09).
//
// It follows the ledger with a read-only credential. A trace has the id of the sender's
// traceparent, or one made of project, agent, session and the request's id, like the ids
// of spans. All else comes from the entries, so that the same ledger always gives the
// same spans. Delivery is at least once: after a crash some spans are sent again under
// the same ids.
//
// Nothing above the ceiling leaves. Content that agents and people wrote leaves only with
// Options.Content, and only from entries that are not labelled above the ceiling
// (internal/ceiling). Spans of other entries keep the position in the ledger and the
// commitment of the audit log. Spans sent before an entry was marked cannot be recalled.
package otel
