//go:build cgo && linux

package heap

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static void trim(void) { malloc_trim(0); }

// By default, glibc uses up to eight arenas for each processor, and memory that is freed in one arena cannot be
// used by another. After the first large memtable was freed, glibc puts large memtables into arenas too, where later
// blocks of the cache prevent that their memory is returned. Over days, such fragments became more than half of
// glibc's memory. tune limits the number of arenas. It runs before main, because glibc reads the limit when it
// makes the second arena.
__attribute__((constructor)) static void tune(void) {
	if (!getenv("MALLOC_ARENA_MAX")) mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	mallopt(M_TRIM_THRESHOLD, 1 << 20);
}
#else
static void trim(void) {}
#endif
*/
import "C"

// trim returns free memory of C's allocator, which Pebble uses for memtables and file blocks. By
// itself, glibc returns only free memory at the end of its heap.
func trim() { C.trim() }
