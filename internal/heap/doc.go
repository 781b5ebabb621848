// Package heap keeps a long-lived process from having much more of the system's
// memory than it uses.
//
// By default Go lets a heap double before it collects, and returns what is free only
// slowly: a pipeline that uses 180 MiB has 450. A limit makes it return what is free
// at once, and collect somewhat sooner where that is not enough. A fixed one would
// make a process that needs more do nothing but collect, so the limit follows what
// is in use. It is only ever a matter of speed, and of nothing that is decided.
//
// It imports nothing of ours. Begin reading with Keep.
package heap
