package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestASentinelGroupInAnotherLanguageKeepsTheProtocol(t *testing.T) {
	long(t)
	t.Parallel()
	dir := stockNode(t, "../../examples/sentinel", "judge.mjs")
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Second)
	defer cancel()
	conform(ctx, t, "--group", "judge", "--digest", "external:words-v1", "--", "node", filepath.Join(dir, "judge.mjs"))
}

// The conformance checker for sentinel groups of third parties must pass for Lazaret's own sentinels too.
func TestOurOwnSentinelsKeepTheProtocolToo(t *testing.T) {
	long(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Second)
	defer cancel()
	conform(ctx, t, "--group", "core", "--digest", "rules", "--",
		"sh", "-c", `key="$LAZARET_STATE.key"; [ -s "$key" ] || head -c 32 /dev/urandom | base64 > "$key"; exec `+
			filepath.Join(bin, "sentinels")+
			` --group "$LAZARET_GROUP" --trust "$LAZARET_TRUST" --state "$LAZARET_STATE/cache" --state-key "$key"`)
}

func conform(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "lazaret"), append([]string{"conformance", "sentinel"},
		args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "PASS  "); n != 8 {
		t.Errorf("%d of 8 checks pass:\n%s", n, out)
	}
	t.Logf("\n%s", out)
}
