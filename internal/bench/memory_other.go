//go:build !linux

package bench

import "time"

func residentMemory() (now, peak uint64) { return 0, 0 }

func forgetPeak() {}

// ResidentOf returns zero: the values are unknown on this system.
func ResidentOf(int) (now, peak uint64) { return 0, 0 }

func residentFiles() uint64 { return 0 }

// CPUOf returns zero: the value is unknown on this system.
func CPUOf(int) time.Duration { return 0 }
