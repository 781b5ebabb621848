//go:build !linux

package bench

func residentMemory() (now, peak uint64) { return 0, 0 }
