// Package otel tells OpenTelemetry what the ledger says: verdicts and the
// execution of tools as spans after the semantic conventions for generative AI
// (open-telemetry/semantic-conventions-genai, in development, of 2026-09).
//
// It follows the ledger with a credential that can read and nothing else. Ids of
// traces and spans follow from project, agent, session and the request's id, and
// all else from the entries, so that the same ledger gives the same spans,
// whoever sends them and however often. Spans are sent at least once: after a
// crash some again, under the same ids.
//
// Nothing above the ceiling leaves. What agents and people wrote leaves only
// where it is asked for (Options.Content), and then only of entries that are not
// labelled above it (internal/ceiling); of the others their place in the ledger
// and the commitment of the audit log stay. It cannot call back what it sent
// before somebody marked it.
package otel
