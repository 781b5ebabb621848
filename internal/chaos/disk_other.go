//go:build !linux

package chaos

import "errors"

type disk struct{}

func mountDisk(string) (*disk, error) {
	return nil, errors.New("filling a disk is supported only on Linux")
}

func (d *disk) fill() error  { return nil }
func (d *disk) free() error  { return nil }
func (d *disk) close() error { return nil }
