// Package retain removes entries from the streams: old audited ones (Trim), and those of
// a project that is to be forgotten (Forget). It reads off the streams, off signed
// checkpoints and off the log itself what may go. Entries of which it cannot make sure
// stay.
//
// It may import internal/inquiry, internal/stage, internal/wire and pkg/chain. Begin reading with
// retain.go, then trim.go or forget.go.
package retain
