package files

import "os"

// SetLink replaces os.Link until the function that it returns is called.
func SetLink(f func(from, to string) error) (restore func()) {
	before := link
	link = f
	return func() { link = before }
}

// SetSync replaces the method Sync of folders until the function that it returns is called.
func SetSync(f func(*os.File) error) (restore func()) {
	before := syncFile
	syncFile = f
	return func() { syncFile = before }
}
