package admin

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natsserver"
)

func TestARestoreSaysWhatBecameOfTheTokens(t *testing.T) {
	for tokens, want := range map[bool]string{true: "tokens that were revoked after the backup, 2026-11-01T00:00:00Z, have " +
		"access again", false: "no token is accepted anymore"} {
		var out bytes.Buffer
		sayRevoked(&out, &natsserver.Merged{Made: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}, tokens)
		if !strings.Contains(out.String(), want) {
			t.Errorf("tokens %t:\n%s", tokens, out.String())
		}
	}
}
