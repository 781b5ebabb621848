package metrics

import (
	"os/exec"
	"testing"
)

// Prometheus' own rule tests check that the shipped alerts fire when they should, and not earlier.
func TestPromiseC24TheShippedAlertsFireByPrometheusRuleTests(t *testing.T) {
	cmd := exec.Command("promtool", "test", "rules", "rules_test.yaml")
	cmd.Dir = "../../deploy/prometheus"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v (promtool is in Debian's package prometheus)\n%s", err, out)
	}
}
