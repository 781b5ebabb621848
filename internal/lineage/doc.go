// Package lineage draws the origins of a belief or an action.
//
// It may import internal/ingest and pkg/text. Begin reading with Lines.
package lineage
