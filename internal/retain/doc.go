// Package retain removes entries from the streams: old audited ones (Trim), and those of a project or
// data subject to be erased (Forget). It determines from the streams, signed checkpoints and the log
// which entries may be removed. If it cannot verify that, the entry stays.
//
// It may import internal/inquiry, internal/stage, internal/statement, internal/wire and pkg/chain, and for
// the files that it erases internal/hook and internal/memorytool. Begin reading with retain.go, then
// trim.go or forget.go.
package retain
