package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/internal/status"
	"lazaret/streams"
)

// seen is the decoded output of `lazaret top --once --json`.
type seen struct {
	status.Snapshot
	OpenHolds int `json:"open_holds"`
}

func top(t *testing.T, data string, interval string) *seen {
	t.Helper()
	out := must(t, data, "top", "--once", "--json", "--interval", interval)
	s := new(seen)
	if err := json.Unmarshal([]byte(out), s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

func TestTopSaysHowFarEveryStageHasCome(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{NoSync: true})
	if v := p.decide(read("s")); v.Verdict != streams.Allow {
		t.Fatalf("%+v", v)
	}
	if v := p.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: "send_email",
		Args: []byte(`{"to":"a@b.example"}`)}); v.Verdict != streams.Hold {
		t.Fatalf("%+v", v)
	}
	p.publish("lz.in.demo.agent.obs.web", "{")
	var s *seen
	natstest.Eventually(t, time.Minute, "all is folded and signed", func() bool {
		s = top(t, p.data, "0")
		return len(s.Processes) == 4 && s.Intake.Messages == 0 && !slices.ContainsFunc(s.Processes,
			func(p *status.Process) bool {
				return !p.Ready || p.Lag > 0 || p.Log != nil && p.Log.Unsigned > 0
			})
	})
	var stages []string
	for _, p := range s.Processes {
		stages = append(stages, p.Stage)
	}
	if want := []string{"ingest", "sentinel-core", "arbiter", "auditor"}; !slices.Equal(stages, want) {
		t.Errorf("%v answer, want %v", stages, want)
	}
	if s.OpenHolds != 1 || s.Counts["verdict.allow"] != 1 || s.Counts["verdict.hold"] != 1 || s.Counts["rejected"] != 1 {
		t.Errorf("open holds %d, counts %v", s.OpenHolds, s.Counts)
	}
	log := s.Processes[3].Log
	if log == nil || log.Leaves < int64(s.Ledger.Last) || log.CheckpointAge < 0 || log.Gaps != 0 {
		t.Errorf("log %+v, the ledger ends at %d", log, s.Ledger.Last)
	}
	if s.PerSubject != streams.IntakePerSubject || s.Intake.MaxBytes <= 0 || s.Intake.MaxBytes > streams.IntakeBytes {
		t.Errorf("limits %d and %d", s.PerSubject, s.Intake.MaxBytes)
	}
	if s.Rates != nil {
		t.Error("one look has rates")
	}
	if s := top(t, p.data, "50ms"); s.Rates == nil || s.Rates.Seconds < 0.05 || len(s.Rates.Processes) != 4 {
		t.Errorf("two looks: %+v", s.Rates)
	}
	out := must(t, p.data, "top", "--once", "--interval", "0")
	for _, want := range []string{"allow 1, hold 1, deny 0", "open holds 1", "messages 1, repeated ids 0", "sentinel-core",
		"MiB (0.0 %)"} {
		if !strings.Contains(out, want) {
			t.Errorf("top does not say %q:\n%s", want, out)
		}
	}
}

// While a stage is paused, top must list it as silent, and doctor must say that no process of the stage answers. When
// the stage runs again, it must catch up without help.
func TestDoctorAndTopShowWhoLags(t *testing.T) {
	long(t)
	t.Parallel()
	f := newFleet(t, "ingest", "sentinels", "arbiter", "auditor")
	if out, code := command(t, f.data, "doctor"); code != 0 || !strings.Contains(out, "good   sentinel-core") ||
		!strings.Contains(out, "good   arbiter") || !strings.Contains(out, "good   auditor") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	// top lists a stage as silent only if the stage has reported before. So wait for its first report.
	if err := <-startLoad(t, connect(t, f.data, "agent"), 60).done; err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "the sentinels have answered", func() bool {
		return slices.ContainsFunc(top(t, f.data, "0").Processes, func(p *status.Process) bool {
			return p.Stage == "sentinel-core" && p.Counts["assessment"] > 0
		})
	})
	f.procs["sentinels"].signal(syscall.SIGSTOP)
	l := startLoad(t, connect(t, f.data, "agent"), 400)
	if err := <-l.done; err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "top names the silent stage", func() bool {
		s := top(t, f.data, "0")
		return len(s.Silent) == 1 && s.Silent[0].Stage == "sentinel-core" && s.Silent[0].Since > 0 &&
			len(s.Processes) == 3 && s.Counts["verdict.silent.core"] > 0
	})
	out, code := command(t, f.data, "doctor", "--json")
	var cs []struct {
		What string `json:"what"`
		Good bool   `json:"good"`
		Text string `json:"text"`
	}
	if end := strings.LastIndex(out, "]"); end < 0 || json.Unmarshal([]byte(out[:end+1]), &cs) != nil {
		t.Fatalf("exit %d\n%s", code, out)
	}
	if !slices.ContainsFunc(cs, func(c struct {
		What string `json:"what"`
		Good bool   `json:"good"`
		Text string `json:"text"`
	}) bool {
		return c.What == "sentinel-core" && strings.Contains(c.Text, "no process answers")
	}) {
		t.Errorf("doctor says nothing of a stopped sentinel: %s", out)
	}
	f.procs["sentinels"].signal(syscall.SIGCONT)
	natstest.Eventually(t, time.Minute, "nobody lags", func() bool {
		s := top(t, f.data, "0")
		return len(s.Processes) == 4 && len(s.Silent) == 0 && !slices.ContainsFunc(s.Processes,
			func(p *status.Process) bool { return p.Lag > 0 })
	})
	if out, code := command(t, f.data, "doctor"); code != 0 {
		t.Errorf("afterwards: exit %d\n%s", code, out)
	}
}
