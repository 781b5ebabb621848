package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// residentMemory returns the kernel's values for this process.
func residentMemory() (now, peak uint64) { return ResidentOf(os.Getpid()) }

// forgetPeak resets the kernel's maximum of this process's resident memory to the current value. Without the
// permission to do so, the maximum since the start of the process remains.
func forgetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// residentFiles returns the resident memory of mapped files, in bytes.
func residentFiles() uint64 { return status(os.Getpid())["RssFile"] }

// ResidentOf returns the current and the highest resident memory of a process, in bytes; zero if
// unknown.
func ResidentOf(pid int) (now, peak uint64) {
	s := status(pid)
	return s["VmRSS"], s["VmHWM"]
}

// CPUOf returns the processor time that a process has used; zero if unknown.
func CPUOf(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the fields after the program's name, which may contain spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, err := strconv.Atoi(f[11])
	system, serr := strconv.Atoi(f[12])
	if err != nil || serr != nil {
		return 0
	}
	return time.Duration(user+system) * time.Second / 100 // the kernel counts in 1/100 s
}

// status returns the kernel's sizes of a process by name, in bytes; nil if unknown.
func status(pid int) map[string]uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	sizes := make(map[string]uint64)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		kb, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if n, err := strconv.ParseUint(strings.TrimSpace(kb), 10, 64); ok && err == nil {
			sizes[name] = n << 10
		}
	}
	return sizes
}
