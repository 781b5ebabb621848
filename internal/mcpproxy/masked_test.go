package mcpproxy

import (
	"strings"
	"testing"
)

// If an option without a value has a name like a secret's, the value of the next option is still
// masked.
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
