// Package imported reads what other memory stores export, as memory writes.
//
// Nobody here saw where an imported memory came from, whatever its store says of
// it. It is therefore external content, of origin document, on the channel import:
// by its evidence it is never believed, it may inform and not steer, and no
// repetition, success or second import promotes it. A person can.
//
// It may import streams and pkg/beliefs. Begin reading with Read.
package imported
