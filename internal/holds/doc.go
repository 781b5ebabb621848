// Package holds is what people do with holds: list them with those that are alike, look one up, make sure that what
// is shown is what is signed, and send a signed resolution. The command line and the console share it.
//
// It may import internal/arbiter, internal/query, internal/suggest and pkg/approval. Begin reading
// with holds.go; review.go proposes levels for the tools of a held catalogue.
package holds
