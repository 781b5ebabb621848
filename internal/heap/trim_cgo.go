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

// trim returns free memory of C's allocator, which Pebble uses for memtables and file blocks. By
// itself, glibc returns only free memory at the end of its heap.
func trim() { C.trim() }
