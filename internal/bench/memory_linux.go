package bench

import (
	"os"
	"strconv"
	"strings"
)

// residentMemory reads what the kernel says of this process.
func residentMemory() (now, peak uint64) {
	b, err := os.ReadFile("/proc/self/status")
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
