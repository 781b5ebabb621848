package verb

import (
	"testing"
	"time"
)

func TestSinceTakesDays(t *testing.T) {
	for in, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "90m": 90 * time.Minute, "0d": 0,
		"65535d": 65535 * 24 * time.Hour} {
		var s SinceFlag
		if err := s.Set(in); err != nil || time.Duration(s) != want {
			t.Errorf("%s: %v, %v", in, time.Duration(s), err)
		}
	}
	for _, in := range []string{"", "d", "-1d", "-1h", "7 d", "1e9d", "NaNd", "99999999d", "soon"} {
		var s SinceFlag
		if err := s.Set(in); err == nil || s != 0 {
			t.Errorf("%q: %v, %v", in, time.Duration(s), err)
		}
	}
}
