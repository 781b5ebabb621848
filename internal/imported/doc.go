// Package imported reads the exports of other memory stores as memory writes.
//
// The origin of an imported memory was not observed, whatever its store says. It is therefore external
// content of origin document on the channel import: its evidence never makes it a belief, it may inform
// but not steer, and no repetition, success or second import promotes it. Only a person can.
//
// It may import streams and pkg/beliefs. Begin reading with Read.
package imported
