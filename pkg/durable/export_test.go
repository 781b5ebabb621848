package durable

// SetLink replaces os.Link until the function that it returns is called.
func SetLink(f func(from, to string) error) (restore func()) {
	before := link
	link = f
	return func() { link = before }
}
