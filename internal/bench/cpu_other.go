//go:build !unix

package bench

import "time"

// cpuTime returns 0: the value is unknown on this system.
func cpuTime() time.Duration { return 0 }

// maxRSS returns 0: the value is unknown on this system.
func maxRSS() float64 { return 0 }
