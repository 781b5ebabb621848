// Package holds lists holds with similar ones, finds a hold, checks that the shown content is the
// signed content, and sends signed resolutions. The command line and the console share it.
//
// It may import internal/arbiter, internal/ingest, internal/stage, internal/query, internal/suggest,
// internal/cli and pkg/approval. Begin reading with holds.go; review.go proposes levels for the tools of a
// held catalogue.
package holds
