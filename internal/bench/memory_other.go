//go:build !linux

package bench

import "time"

func residentMemory() (now, peak uint64) { return 0, 0 }

// ResidentOf is the resident memory of a process, now and at most, in bytes; zero if
// unknown.
func ResidentOf(int) (now, peak uint64) { return 0, 0 }

func residentFiles() uint64 { return 0 }

// CPUOf is the processor time of a process so far; zero if unknown.
func CPUOf(int) time.Duration { return 0 }
