package verb

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SinceFlag is a duration flag that also accepts days: 7d.
type SinceFlag time.Duration

// Type returns the type name that help shows.
func (s *SinceFlag) Type() string { return "duration" }

func (s *SinceFlag) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Set parses a Go duration, or a number of days such as 7d.
func (s *SinceFlag) Set(v string) error {
	d, err := time.ParseDuration(v)
	if days, ok := strings.CutSuffix(v, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration, such as 90m, 12h or 7d", v)
	}
	*s = SinceFlag(d)
	return nil
}

// Start returns the current time minus the flag's duration. It returns the zero time if the flag is not set.
func (s SinceFlag) Start() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(s))
}
