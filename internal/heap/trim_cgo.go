//go:build cgo && linux

package heap

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static void trim(void) { malloc_trim(0); }
#else
static void trim(void) {}
#endif
*/
import "C"

// trim returns what C's allocator keeps: Pebble has memtables and blocks of files
// from it, of all sizes, and glibc by itself returns only what is free at its end.
func trim() { C.trim() }
