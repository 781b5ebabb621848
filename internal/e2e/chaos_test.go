package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"lazaret/internal/chaos"
)

// A short run of lazaret chaos. The long form is `lazaret chaos --kills 200`.
func TestChaosEndsWithAnAccountInOrder(t *testing.T) {
	long(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED in short mode: 20 kills and other faults")
	}
	rep, out := runChaos(t, "--kills", "20", "--seed", "1", "--events", "5000", "--drills",
		"overlap:arbiter,mute:sentinels")
	kills := 0
	for _, n := range rep.Kills {
		kills += n
	}
	if kills != 20 || rep.Acknowledged+rep.Broken != rep.Events || rep.Drills != 2 || rep.TookOver == 0 ||
		rep.Answers < 20 || rep.Proposals == 0 || rep.Again == 0 || rep.Rejected == 0 || rep.Repeats == 0 ||
		rep.Partitions == 0 || rep.Pauses == 0 || rep.Stutters == 0 {
		t.Errorf("the run shows less than it should: %s", out)
	}
	noClocks := false
	for _, s := range rep.NotTried {
		t.Log("NOT TRIED:", s)
		noClocks = noClocks || strings.HasPrefix(s, "clock jumps")
	}
	if rep.ClockJumps == 0 && !noClocks {
		t.Error("no clock jumped, and nothing says why")
	}
	t.Logf("%d events, %v kills, %d pauses, %d disconnections, %d clock jumps, %d times in bursts, %d full disks, %d "+
		"blocks without a key, %d answers", rep.Acknowledged, rep.Kills, rep.Pauses, rep.Partitions, rep.ClockJumps, rep.Stutters,
		rep.FullDisks, rep.HalfBlocks, rep.Answers)
}

// The processes decide jointly here. They must pass the same checks as separate ones, and at least ten of their
// verdicts must be in joint frames.
func TestChaosOfJointDecisionsEndsWithAnAccountInOrder(t *testing.T) {
	long(t)
	for processes, drills := range map[string]string{"pair": "overlap:stages,stray:stages", "up": ""} {
		t.Run(processes, func(t *testing.T) {
			rep, out := runChaos(t, "--processes", processes, "--kills", "8", "--seed", "1", "--events", "2000", "--drills",
				drills, "--answers", "60", "--joint", "10")
			if rep.Joint < 10 || rep.Proposals == 0 || processes == "pair" && (rep.TookOver == 0 || rep.Strays == 0) {
				t.Errorf("the run shows less than it should: %s", out)
			}
			t.Logf("%d events, %v kills, %d joint of %d verdicts", rep.Acknowledged, rep.Kills, rep.Joint, rep.Verdicts)
		})
	}
}

// runChaos runs lazaret chaos and checks its report.
func runChaos(t *testing.T, args ...string) (*chaos.Report, string) {
	t.Helper()
	out := must(t, t.TempDir(), append([]string{"chaos", "--json"}, args...)...)
	rep := new(chaos.Report)
	if err := json.Unmarshal([]byte(out), rep); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if !rep.OK() || rep.Lost != 0 || rep.Doubled != 0 || rep.Uncleared != 0 || rep.Untrue != 0 || rep.Altered != 0 ||
		rep.Unanswered != 0 || rep.Unassessed != 0 || rep.Twice != 0 || rep.Unreplayed != 0 || !rep.Identical ||
		rep.Status != "verified" {
		t.Errorf("%s", out)
	}
	return rep, out
}
