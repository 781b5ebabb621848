package metrics

import (
	"os/exec"
	"testing"
)

// The shipped alerts fire when they should, and not before, by Prometheus' own rule tests.
func TestPromiseC24TheShippedAlertsFireByPrometheusRuleTests(t *testing.T) {
	cmd := exec.Command("promtool", "test", "rules", "rules_test.yaml")
	cmd.Dir = "../../deploy/prometheus"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v (promtool is in Debian's package prometheus)\n%s", err, out)
	}
}
