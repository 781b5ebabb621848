//go:build !linux

package chaos

import "errors"

type disk struct{}

func mountDisk(string) (*disk, error) {
	return nil, errors.New("a disk that can be filled is made on Linux only")
}

func (d *disk) fill() error  { return nil }
func (d *disk) free() error  { return nil }
func (d *disk) close() error { return nil }
