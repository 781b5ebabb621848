//go:build !linux && !darwin

package hook

import (
	"io/fs"
	"time"
)

// changeTime returns when a file, or its name, was last changed. Here it is not known.
func changeTime(fs.FileInfo) (at time.Time, ok bool) { return at, false }
