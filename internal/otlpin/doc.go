// Package otlpin maps spans of OpenTelemetry's semantic conventions for generative AI
// (open-telemetry/semantic-conventions-genai, in development, of 2026-09) to events.
//
// Tool executions, retrievals and searches of memory become observations and outcomes. Memory writes
// become memory events. The id of an event is derived from the ids of trace and span, so a span that is
// sent twice gives a repeat. Spans of other operations and spans without content are only counted.
//
// Begin reading with Map in spans.go.
package otlpin
