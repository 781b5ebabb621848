package hook

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns when a file, or its name, was last changed. Programs cannot set this time.
func changeTime(info fs.FileInfo) (at time.Time, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return at, false
	}
	return time.Unix(s.Ctim.Unix()), true
}
