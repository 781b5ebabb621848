package files

import "os"

// SetLink makes the package call f instead of os.Link, until the returned function is called.
func SetLink(f func(from, to string) error) (restore func()) {
	before := link
	link = f
	return func() { link = before }
}

// SetSync makes the package call f instead of the method Sync of folders, until the returned function is called.
func SetSync(f func(*os.File) error) (restore func()) {
	before := syncFile
	syncFile = f
	return func() { syncFile = before }
}
