package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sinceFlag is a duration that may be in days: 7d.
type sinceFlag time.Duration

func (s *sinceFlag) Type() string { return "duration" }

func (s *sinceFlag) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *sinceFlag) Set(v string) error {
	d, err := time.ParseDuration(v)
	if days, ok := strings.CutSuffix(v, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q is no duration, such as 90m, 12h or 7d", v)
	}
	*s = sinceFlag(d)
	return nil
}

// start is when the flag's time begins; zero if it is not set.
func (s sinceFlag) start() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(s))
}
