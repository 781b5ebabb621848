package mcpproxy

import (
	"strings"
	"testing"
)

// If an option without a value has a name like that of a secret, the word after it looks like its value but is another
// option. The value of this other option must be masked too.
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
