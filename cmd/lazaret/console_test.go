package main

import (
	"strings"
	"testing"

	"lazaret/internal/cli"
)

func TestALoginLinkIsValidForADayAtMost(t *testing.T) {
	data := t.TempDir()
	for expires, ok := range map[string]bool{"1h": true, "24h": true, "24h1s": false, "1000h": false, "0s": false} {
		out, code := lazaret(t, "console", "login", "bob", "--expires", expires, "--data", data)
		if ok && (code != cli.ExitOK || !strings.Contains(out, "/login?code=")) {
			t.Errorf("%s: exit %d: %s", expires, code, out)
		}
		if !ok && (code != cli.ExitFailed || !strings.Contains(out, "at most 24h") || strings.Contains(out, "code=")) {
			t.Errorf("%s: exit %d: %s", expires, code, out)
		}
	}
}
