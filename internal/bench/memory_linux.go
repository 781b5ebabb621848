package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// residentMemory reads what the kernel says of this process.
func residentMemory() (now, peak uint64) { return ResidentOf(os.Getpid()) }

// residentFiles is what this process has resident of files.
func residentFiles() uint64 { return status(os.Getpid())["RssFile"] }

// ResidentOf is the resident memory of a process, now and at most, in bytes; zero if
// unknown.
func ResidentOf(pid int) (now, peak uint64) {
	s := status(pid)
	return s["VmRSS"], s["VmHWM"]
}

// CPUOf is the processor time of a process so far; zero if unknown.
func CPUOf(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // behind the name
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, err := strconv.Atoi(f[11])
	system, serr := strconv.Atoi(f[12])
	if err != nil || serr != nil {
		return 0
	}
	return time.Duration(user+system) * time.Second / 100 // the kernel's clock ticks
}

// status are the kernel's sizes of a process, in bytes; none if unknown.
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
