package embedded_test

import "testing"

// long skips a test with -short (make test). make ci runs all tests without -short. With the race detector, the test is
// not skipped.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() && !raced {
		t.Skip("long: make ci runs it")
	}
}
