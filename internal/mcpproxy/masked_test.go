package mcpproxy

import (
	"strings"
	"testing"
)

// An option without a value whose name looks like a secret's does not leave the next
// option's value in the clear.
func TestASecretBehindAnOptionWithoutAValueIsMasked(t *testing.T) {
	for _, command := range [][]string{
		{"server", "--token", "hunter2"},
		{"server", "--token=hunter2"},
		{"server", "--no-auth", "--token", "hunter2"},
		{"server", "--auth", "--key", "--password", "hunter2"},
	} {
		if got := strings.Join(masked(command), " "); strings.Contains(got, "hunter2") || !strings.HasPrefix(got, "server ") {
			t.Errorf("%q is shown as %q", command, got)
		}
	}
}
