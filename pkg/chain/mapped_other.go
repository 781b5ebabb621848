//go:build !linux

package chain

import "github.com/cockroachdb/pebble/v2/vfs"

func mapped(fs vfs.FS) vfs.FS { return fs }
