// Package heap limits how much more memory a long-lived process holds than it uses.
//
// By default Go lets a heap double before it collects, and returns free memory slowly: a pipeline that
// uses 180 MiB holds 450 MiB. A memory limit makes Go return free memory at once and collect somewhat
// earlier. With a fixed limit, a process that needs more would collect all the time, so the limit
// follows the live heap. The limit affects only speed, never decisions.
//
// It imports no other package of this module. Begin reading with Keep.
package heap
