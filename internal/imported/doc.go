// Package imported reads the exports of other memory stores as memory writes.
//
// Lazaret has not observed the origin of an imported memory, whatever its store says. It is therefore external
// content of origin document on the channel import: recalls return it as context only, and its evidence never
// makes it a supported belief. No repetition, success or second import promotes it; only a person can.
//
// It may import streams and pkg/beliefs. Begin reading with Read.
package imported
