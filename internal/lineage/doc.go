// Package lineage draws what a belief or an action comes from.
//
// It may import internal/ingest and pkg/text. Begin reading with Lines.
package lineage
