package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// residentMemory reads what the kernel says of this process.
func residentMemory() (now, peak uint64) { return ResidentOf(os.Getpid()) }

// ResidentOf is what a process has resident now and had at most, in bytes; zero
// if nobody says.
func ResidentOf(pid int) (now, peak uint64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			now = n << 10
		case name == "VmHWM":
			peak = n << 10
		}
	}
	return now, peak
}
