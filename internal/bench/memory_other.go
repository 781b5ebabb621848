//go:build !linux

package bench

import "time"

func residentMemory() (now, peak uint64) { return 0, 0 }

// ResidentOf is what a process has resident now and had at most, in bytes; zero
// if nobody says.
func ResidentOf(int) (now, peak uint64) { return 0, 0 }

func residentFiles() uint64 { return 0 }

// CPUOf is what a process has used of all processors so far; zero if nobody says.
func CPUOf(int) time.Duration { return 0 }
